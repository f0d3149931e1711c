import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from mrclab.topo.spec import FabricSpec, SpecError, explain, load


def test_an_empty_description_is_the_demo_fabric():
    spec = load({})
    assert (spec.planes, spec.t0s, spec.t1s, spec.hosts_per_t0, spec.path_mtu) == (4, 2, 2, 2, 4096)
    assert (spec.link.rate_pps, spec.link.delay, spec.interface_mtu) == (500, 0.002, 4352)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2ms", 0.002),
        ("500us", 0.0005),
        ("500 µs", 0.0005),
        ("1.5s", 1.5),
        ("0.05", 0.05),
        (0.1, 0.1),
        ("3s", 3.0),
        ("7ns", 7e-9),
    ],
)
def test_delays_are_read_with_their_unit(text, seconds):
    assert load({"link": {"delay": text}}).link.delay == pytest.approx(seconds)


@given(st.integers(1, 100_000), st.floats(0, 0.1), st.integers(1, 4))
def test_default_thresholds_are_in_order_for_any_bandwidth_delay_product(rate, delay, t0s):
    queue = load({"t0s": t0s, "link": {"rate_pps": rate, "delay": delay}}).queue
    assert 0 < queue.ecn_min < queue.ecn_max < queue.trim_threshold <= queue.last_hop_trim_threshold < queue.depth


def test_default_thresholds_follow_the_bandwidth_delay_product():
    spec = load({"link": {"rate_pps": 2500, "delay": "2ms"}})
    assert spec.bdp_packets == pytest.approx(40)
    queue = spec.queue
    assert (queue.ecn_min, queue.ecn_max, queue.trim_threshold, queue.last_hop_trim_threshold) == (8, 32, 40, 60)
    assert queue.depth == 160


def test_given_thresholds_are_kept_and_a_resolved_spec_reads_back_the_same():
    spec = load({"queue": {"depth": 99, "trim_threshold": 20}})
    assert (spec.queue.depth, spec.queue.trim_threshold) == (99, 20)
    assert load(spec.model_dump()) == spec


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"planes": 0}, r"fabric\.planes: .*at least 1 \(got 0\)"),
        ({"planes": 16}, r"fabric\.planes: .*at most 15 \(got 16\)"),
        ({"t0s": 1024}, r"fabric.t0s: .*1023 \(got 1024\)"),
        ({"plane": 3}, r"fabric\.plane is not a known field; did you mean 'planes'\?"),
        ({"link": {"rate_ps": 3}}, r"fabric\.link\.rate_ps is not a known field; did you mean 'rate_pps'\?"),
        ({"zzz": 3}, r"fabric\.zzz is not a known field; known here: planes, "),
        (
            {"link": {"delay": "2 parsec"}},
            r"fabric\.link\.delay: '2 parsec' is not a duration; write, for example, 2ms",
        ),
        ({"link": {"delay": float("nan")}}, r"fabric\.link\.delay: .*finite"),
        ({"queue": {"ecn_min": 30, "ecn_max": 20}}, r"queue\.ecn_min 30 must be below queue\.ecn_max 20"),
        ({"queue": {"depth": 9}}, r"queue\.\w+ 12 must be below queue\.depth 9; raise depth"),
        ({"path_mtu": 9000}, r"fabric\.path_mtu"),
        ({"planes": "many"}, r"fabric\.planes: .*a whole number.*'many'"),
    ],
)
def test_mistakes_are_named_with_field_and_remedy(data, message):
    with pytest.raises(SpecError, match=message):
        load(data)


def test_every_mistake_is_said_at_once():
    with pytest.raises(SpecError) as caught:
        load({"planes": 0, "t0s": 0, "typo": 1})
    assert all(word in str(caught.value) for word in ("fabric.planes", "fabric.t0s", "fabric.typo"))


def test_a_run_waits_for_one_more_sample_of_very_many_hosts_and_for_three_of_few():
    few = {"planes": 8, "t0s": 32, "t1s": 16, "hosts_per_t0": 32, "link": {"rate": "100 Gb/s", "delay": "600ns"}}
    small, large = load(few), load({**few, "t0s": 512, "t1s": 256, "hosts_per_t0": 256})
    assert small.quiet == pytest.approx(3 * small.sample_interval)
    assert large.quiet == pytest.approx(large.sample_interval + 2 * small.sample_interval)
    assert load({}).quiet == pytest.approx(0.3)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    fabric: FabricSpec


def test_a_spec_inside_a_larger_file_is_explained_with_its_place():
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({"fabric": {"link": {"dealy": 1}}})
    assert explain(caught.value, Outer, "scenario") == [
        "scenario.fabric.link.dealy is not a known field; did you mean 'delay'?"
    ]

import pytest

from mrclab.topo import srv6
from mrclab.topo.cables import cablefaults
from mrclab.topo.cables.cablefaults import Corrupt, Loss, Match, RateLimit, SeededLoss, every_nth, exactly


def test_the_empty_match_is_every_packet():
    assert list(Match().rules()) == [""]


def test_a_usid_is_looked_for_in_all_six_places():
    rules = list(Match(usids=(0x2202, 0x1101)).rules())
    assert [rule.split()[5] for rule in rules] == [f"@nh,{start},16" for start in (224, 240, 256, 272, 288, 304)]
    assert all(rule.endswith("{ 0x1101, 0x2202 }") for rule in rules)


def test_a_whole_ev_is_compared_in_label_and_port_and_a_path_in_its_bits_only():
    ev = srv6.ev(3, 2, srv6.ev_tag(9))
    (whole,) = Match(evs=(ev,)).rules()
    assert whole.endswith("@nh,336,16 0x3020 @nh,640,16 0x8009")
    (path,) = Match(paths=((3, 2),)).rules()
    assert path.endswith("@nh,336,16 & 0xfff3 == 0x3020")


def test_kinds_combine_and_alternatives_multiply():
    rules = list(Match(usids=(0x2202,), paths=((1, 1), (2, 1)), min_length=1000).rules())
    assert len(rules) == 6 * 2
    assert all(rule.startswith("meta length >= 1000 ether type ip6") for rule in rules)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Loss(1.1), "probability"),
        (lambda: Corrupt(probability=-1), "probability"),
        (lambda: Corrupt(flip=0), "bits"),
        (lambda: every_nth(0), "first"),
        (lambda: every_nth(3, first=4), "first 4 and n 3"),
        (lambda: exactly(()), "numbers"),
        (lambda: exactly((0,)), "numbers"),
        (lambda: RateLimit(0), "rate"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_installed_can_be_removed_by_name():
    text = cablefaults.install("netdev t", "7a", Match(), Loss(0.25))
    assert "numgen random mod 1000000 < 250000" in text
    removed = {line.split()[-1] for line in cablefaults.uninstall("netdev t", "7a").splitlines()}
    made = {line.split()[4] for line in text.splitlines() if line.split()[1] in {"chain", "counter"}}
    assert removed == made == {"s7a", "n7a", "m7a", "x7a"}


def test_seeded_losses_are_the_same_packets_for_the_same_seed():
    action = SeededLoss(0.01, "1/gray/h1-p1")
    cycle, lost = action.numbers()
    assert len(lost) == round(0.01 * cycle) == 2048
    assert list(lost) == sorted(set(lost))
    assert max(lost) < cycle
    assert SeededLoss(0.01, "1/gray/h1-p1").numbers() == (cycle, lost)
    assert SeededLoss(0.01, "2/gray/h1-p1").numbers() != (cycle, lost)
    assert action.rule("counter").startswith(f"numgen inc mod {cycle} {{ {lost[0]}, ")


@pytest.mark.parametrize("rate", [0.3, 1e-2, 1e-3, 1e-4, 3e-5, 1.5e-6, 4e-7, 1e-8])
def test_a_seeded_loss_loses_what_its_rate_says_also_where_it_is_tiny(rate):
    cycle, lost = SeededLoss(rate, "seed").numbers()
    assert lost
    assert len(lost) / cycle == pytest.approx(rate, rel=0.005)


def test_a_seeded_loss_of_nothing_and_of_everything():
    assert SeededLoss(0.0, "x").rule("counter") == "numgen inc mod 2 >= 2 counter drop"
    assert SeededLoss(1.0, "x").rule("counter") == "counter drop"
    assert len(SeededLoss(1e-6, "x").numbers()[1]) == 1
    for probability, draws in ((1.1, 10), (0.5, 0)):
        with pytest.raises(ValueError, match=r"probability|draw"):
            SeededLoss(probability, "x", draws)


def test_one_number_and_all_numbers_need_no_set_of_them():
    assert every_nth(10, first=3).rule("c") == "numgen inc mod 10 2 c drop"
    assert every_nth(1).rule("c") == SeededLoss(1.0, "s").rule("c") == "c drop"
    assert exactly((5, 1)).rule("c") == "numgen inc mod 4294967295 { 0, 4 } c drop"

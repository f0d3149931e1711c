"""Control-flow graphs of pipelines: successors, post-dominators, and the fields read from a node on."""

from __future__ import annotations

from dataclasses import dataclass

from mrclab.softswitch.compiler.analysis import liveness
from mrclab.softswitch.p4 import program as p4


@dataclass
class Graph:
    """Analysis of a pipeline: nodes, their post-dominators, and the fields read from each on."""

    nodes: dict[str, p4.Node]
    loops: bool
    joins: dict[str, str | None]
    reads: dict[str | None, frozenset[tuple[str, str]]]


def graph_of(program: p4.Program, pipeline: p4.Pipeline) -> Graph:
    """Return the graph that a pipeline's code is laid out by."""
    if _has_loop(pipeline):
        return Graph(pipeline.nodes, True, {}, {})
    return Graph(pipeline.nodes, False, _post_dominators(pipeline), _reads_from(program, pipeline))


def _has_loop(pipeline: p4.Pipeline) -> bool:
    """Return True if a path through the pipeline returns to a node."""
    done: set[str] = set()
    for start in pipeline.nodes:
        path, left = [start], [_following(pipeline, start)]
        while path:
            if path[-1] in done or not left[-1]:
                done.add(path.pop())
                left.pop()
                continue
            following = left[-1].pop()
            if following in path:
                return True
            path.append(following)
            left.append(_following(pipeline, following))
    return False


def _following(pipeline: p4.Pipeline, name: str) -> list[str]:
    return [node for node in successors(pipeline.nodes[name]) if node is not None]


def _reads_from(program: p4.Program, pipeline: p4.Pipeline) -> dict[str | None, frozenset[tuple[str, str]]]:
    """Return for each node the fields that it or any node after it reads."""
    result: dict[str | None, frozenset[tuple[str, str]]] = {None: frozenset()}

    def visit(name: str | None) -> frozenset[tuple[str, str]]:
        if name not in result:
            assert name is not None
            reads = liveness.Reads(program)
            node = pipeline.nodes[name]
            reads.node(node)
            result[name] = frozenset(reads.fields).union(*(visit(following) for following in successors(node)))
        return result[name]

    for name in pipeline.nodes:
        visit(name)
    return result


def successors(node: p4.Node) -> list[str | None]:
    """Return the nodes that may follow `node`."""
    if isinstance(node, p4.Conditional):
        return [node.true_next, node.false_next]
    if isinstance(node, p4.ActionCallNode):
        return [node.next_node]
    if "hit" in node.next or "miss" in node.next:
        return [node.next.get("hit"), node.next.get("miss")]
    following = [node.next.get(action.id, node.base_default_next) for action in node.actions]
    if node.default_action is None:
        following.append(node.base_default_next)
    return following or [node.base_default_next]


def _post_dominators(pipeline: p4.Pipeline) -> dict[str, str | None]:
    """Return each node's immediate post-dominator (None: the end)."""
    sets: dict[str, list[str]] = {}

    def chain_of(name: str | None) -> list[str]:
        """Return the post-dominators of a node, itself first."""
        if name is None:
            return []
        if name not in sets:
            chains = [chain_of(following) for following in successors(pipeline.nodes[name])]
            common = chains[0]
            for other in chains[1:]:
                known = set(other)
                common = [node for node in common if node in known]
            sets[name] = [name, *common]
        return sets[name]

    result: dict[str, str | None] = {}
    for name in pipeline.nodes:
        chain = chain_of(name)
        result[name] = chain[1] if len(chain) > 1 else None
    return result

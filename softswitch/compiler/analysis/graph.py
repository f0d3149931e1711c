"""Control-flow graphs of pipelines: successors, and the nodes where paths meet."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from mrclab.softswitch.p4 import program as p4

Joins = dict[str, str | None]
"""By node: the node at which the paths behind it come together again, its immediate post-dominator; None: the end."""


def joins(pipeline: p4.Pipeline) -> Joins | None:
    """Return where the paths behind each node meet; None for a pipeline with a loop."""
    following = {name: [after for after in successors(node) if after] for name, node in pipeline.nodes.items()}
    chains: dict[str | None, list[str]] = {None: []}  # post-dominators of a node, itself first
    try:
        for name in TopologicalSorter(following).static_order():  # the last first
            first, *others = (chains[after] for after in successors(pipeline.nodes[name]))
            known = [set(other) for other in others]
            chains[name] = [name, *(node for node in first if all(node in other for other in known))]
    except CycleError:
        return None
    return {name: next(iter(chains[name][1:]), None) for name in pipeline.nodes}


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

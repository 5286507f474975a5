"""Match the nodes of two graphs, whatever the nodes and values are called.

Four passes, each over the nodes that are still unmatched:

1. nodes that compute the same from the same values, traced back to inputs and weights;
2. nodes with the same operator and name; where the name ends in a number, an exporter may have counted, so
   attributes and weight shapes must agree, too;
3. nodes with the same operator in the same order, those with equal attributes and weight shapes first;
4. nodes between the same matched neighbours whose first inputs are the same value: their operator changed.
"""

from bisect import bisect_left
from collections import ChainMap, defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from heapq import heappop, heappush
from typing import NamedTuple

from onnxlab.model.diff.scope import Scope, Token, constant_token, layered, plain_attributes
from onnxlab.model.graph import GraphNode, subgraphs


@dataclass(frozen=True)
class Matching:
    """The matched nodes of two scopes, with tokens under which matched values are equal.

    Attributes:
        before: The first scope, with tokens for the values its nodes produce, too.
        after: The second scope, likewise; values with one token in both scopes are the same.
        pairs: Nodes of the first scope with their counterparts in the second, in the first one's order.
    """

    before: Scope
    after: Scope
    pairs: Sequence[tuple[GraphNode, GraphNode]]


def match(a: Scope, b: Scope) -> Matching:
    """Find the counterparts of a scope's nodes in another scope.

    Example:
        >>> import onnx
        >>> from onnxlab.model.graph import nodes_of
        >>> relu, same = (onnx.helper.make_node("Relu", [name], ["out"]) for name in "xy")
        >>> a, b = Scope(nodes_of([relu]), {"x": "input 0"}), Scope(nodes_of([same]), {"y": "input 0"})
        >>> [(before.inputs, after.inputs) for before, after in match(a, b).pairs]
        [(('x',), ('y',))]
    """
    return _Matcher(a, b).match()


class _Matcher:
    def __init__(self, a: Scope, b: Scope) -> None:
        self._a, self._b = a, b
        self._ids: dict[Token, int] = {}
        self._traced_a, self._signature_a = self._trace(a)
        self._traced_b, self._signature_b = self._trace(b)
        self._partners: dict[str, GraphNode] = {}  # path in a -> node of b
        self._matched_b: set[str] = set()  # paths in b
        # Each value's token: as traced, and after `_retoken` equal for all nodes that were paired.
        self._before, self._after = self._traced_a, self._traced_b

    def match(self) -> Matching:
        self._pair_by_computation()
        self._pair_by_name()
        self._pair_by_order(lambda scope, node: (node.op, _kind(scope, node)))
        self._pair_by_order(lambda _, node: (node.op, _constant_type(node)))
        self._pair_by_place()
        before, after = replace(self._a, tokens=self._before), replace(self._b, tokens=self._after)
        return Matching(before, after, self._pairs())

    def _pairs(self) -> list[tuple[GraphNode, GraphNode]]:
        return [(node, self._partners[node.path]) for node in self._a.nodes if node.path in self._partners]

    # Tracing

    def _trace(self, scope: Scope) -> tuple[ChainMap[str, Token], dict[str, int]]:
        """Return each value's token and each node's signature, from inputs, weights and operators."""
        tokens, signatures = layered(scope.tokens), {}
        for node in scope.nodes:
            signatures[node.path] = signature = self._sign(scope, node, tokens)
            constant = constant_token(node)
            for i, name in enumerate(node.outputs):
                tokens[name] = constant or ("out", signature, i)
        return tokens, signatures

    def _sign(self, scope: Scope, node: GraphNode, tokens: Mapping[str, Token]) -> int:
        read = tuple(tokens.get(name, ("unknown", name)) if name else None for name in node.inputs)
        bodies = []
        for label, graph in subgraphs(node.proto):
            inputs = {
                info.name: ("body input", node.path.count("/"), i) for i, info in enumerate(graph.input)
            }
            around = replace(scope, tokens=tokens)
            inner, signatures = self._trace(around.inner(graph, f"{node.path}/{label}", inputs))
            outputs = tuple(inner.get(info.name) for info in graph.output)
            bodies.append((label, outputs, tuple(sorted(signatures.values()))))
        attributes = frozenset(plain_attributes(node.proto, scope.opsets).items())
        key = (node.op, len(node.outputs), read, attributes, tuple(bodies))
        return self._ids.setdefault(key, len(self._ids))

    def _retoken(self) -> None:
        """Give the outputs of paired nodes equal tokens where tracing gave them different ones."""
        self._before, self._after = self._traced_a.copy(), self._traced_b.copy()
        for ours, theirs in self._pairs():
            self._join(ours, theirs)

    def _join(self, ours: GraphNode, theirs: GraphNode) -> list[str]:
        """Give one pair's outputs equal tokens; return those of the second node that have a new one."""
        retokened = []
        for i, (our_name, their_name) in enumerate(zip(ours.outputs, theirs.outputs, strict=False)):
            if self._before[our_name] != self._after[their_name]:
                self._before[our_name] = self._after[their_name] = ("pair", ours.path, i)
                retokened.append(their_name)
        return retokened

    # The passes

    def _pair(self, ours: GraphNode, theirs: GraphNode) -> None:
        self._partners[ours.path] = theirs
        self._matched_b.add(theirs.path)

    def _pair_by_computation(self) -> None:
        twins: dict[Token, deque[GraphNode]] = defaultdict(deque)  # by signature, and by signature and label
        for node in self._b.nodes:
            signature = self._signature_b[node.path]
            twins[signature].append(node)
            twins[signature, node.label].append(node)
        for ours in self._a.nodes:
            signature = self._signature_a[ours.path]
            for queue in (twins[signature, ours.label], twins[signature]):
                while queue and queue[0].path in self._matched_b:
                    queue.popleft()
                if queue:
                    self._pair(ours, queue.popleft())
                    break

    def _pair_by_name(self) -> None:
        by_name = {(node.op, node.label): node for node in self._b.nodes if node.path not in self._matched_b}
        for node in self._a.nodes:
            partner = by_name.get((node.op, node.label))
            if partner is None or partner.path in self._matched_b or node.path in self._partners:
                continue
            if not node.label[-1:].isdigit() or _kind(self._a, node) == _kind(self._b, partner):
                self._pair(node, partner)

    def _pair_by_order(self, key: Callable[[Scope, GraphNode], Token]) -> None:
        for i, j in self._aligned(key):
            ours, theirs = self._a.nodes[i], self._b.nodes[j]
            if ours.path not in self._partners and theirs.path not in self._matched_b:
                self._pair(ours, theirs)

    def _pair_by_place(self) -> None:
        fixed = self._aligned(lambda scope, node: (scope is self._a, node.path))
        self._retoken()
        ends = [*fixed, (len(self._a.nodes), len(self._b.nodes))]
        starts = [(0, 0), *((i + 1, j + 1) for i, j in fixed)]
        for (i, j), (i_end, j_end) in zip(starts, ends, strict=True):
            ours = [node for node in self._a.nodes[i:i_end] if node.path not in self._partners]
            theirs = [node for node in self._b.nodes[j:j_end] if node.path not in self._matched_b]
            if ours and theirs:
                self._pair_by_first_input(ours, theirs)

    def _pair_by_first_input(self, ours: Sequence[GraphNode], theirs: Sequence[GraphNode]) -> None:
        """Pair each of our nodes with the first of theirs that has the same value as its first input."""
        readers: dict[str, list[int]] = defaultdict(list)  # by the name of the first input
        waiting: dict[Token, list[int]] = defaultdict(list)  # by its token; heaps, as pairing adds to them
        for place, node in enumerate(theirs):
            readers["".join(node.inputs[:1])].append(place)
            waiting[_first_input(node, self._after)].append(place)
        for node in ours:
            token = _first_input(node, self._before)
            places = waiting[token] if token is not None else []
            while places:
                partner = theirs[heappop(places)]
                if partner.path not in self._matched_b and _first_input(partner, self._after) == token:
                    self._pair(node, partner)
                    for name in self._join(node, partner):
                        for place in readers[name]:  # their first input has a new token
                            heappush(waiting[self._after[name]], place)
                    break

    def _aligned(self, key: Callable[[Scope, GraphNode], Token]) -> list[tuple[int, int]]:
        """Align both sequences of nodes; matched nodes are equal, others if their keys are."""

        def tokens(scope: Scope, pairs: Mapping[str, str]) -> list[Token]:
            return [
                ("pair", pairs[node.path]) if node.path in pairs else ("key", key(scope, node))
                for node in scope.nodes
            ]

        paths_in_a = {theirs.path: path for path, theirs in self._partners.items()}
        return align(tokens(self._a, {path: path for path in self._partners}), tokens(self._b, paths_in_a))


def _constant_type(node: GraphNode) -> Token:
    """The type and shape of a Constant, None for other nodes; Constants of different types do not match."""
    constant = constant_token(node)
    return constant[:3] if isinstance(constant, tuple) else None


def _kind(scope: Scope, node: GraphNode) -> Token:
    """A node's attributes, the shapes of its weights, and the names of its subgraphs."""
    shapes = tuple(tuple(scope.weights[name].dims) for name in node.inputs if name in scope.weights)
    labels = tuple(label for label, _ in subgraphs(node.proto))
    return frozenset(plain_attributes(node.proto, scope.opsets).items()), shapes, labels


def _first_input(node: GraphNode, tokens: Mapping[str, Token]) -> Token:
    return tokens.get(node.inputs[0]) if node.inputs else None


# Aligning two sequences as a text diff does, in time that grows with their length, not its square

# difflib aligns stretches of up to this many elements. Its worst case takes cubic time, and networks are such
# a case: the same few operators over and over.
_SHORT = 64
_WIDTHS = (1, 4, 16)  # lengths of the rows of elements among which a unique one is looked for
_DEPTH = 6  # nested cuts at unique rows; each reads its stretch once


class _Stretch(NamedTuple):
    """The elements from `start` to `end` of one sequence, and those of the other, after `depth` cuts."""

    start: int
    end: int
    other_start: int
    other_end: int
    depth: int


def align(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the places of equal elements that belong together, increasing on both sides.

    Short sequences are aligned by `difflib.SequenceMatcher`. Longer ones are first cut at what both have
    exactly once (a "patience diff"): an element or, failing that, a row of 4 or 16. Where nothing is unique
    they are cut in the middle.

    Example:
        >>> align("abcd", "xacd")
        [(0, 1), (2, 2), (3, 3)]
    """
    # Small numbers stand for the elements, which may be large and slow to hash.
    numbers: dict[Hashable, int] = {}
    a, b = ([numbers.setdefault(element, len(numbers)) for element in row] for row in (ours, theirs))
    pairs: list[tuple[int, int]] = []
    stretches = [_Stretch(0, len(a), 0, len(b), 0)]
    while stretches:
        start, end, other_start, other_end, depth = stretches.pop()
        if max(end - start, other_end - other_start) <= _SHORT:
            matcher = SequenceMatcher(None, a[start:end], b[other_start:other_end], autojunk=False)
            for i, j, size in matcher.get_matching_blocks():
                pairs += [(start + i + k, other_start + j + k) for k in range(size)]
            continue
        while start < end and other_start < other_end and a[start] == b[other_start]:
            pairs.append((start, other_start))
            start, other_start = start + 1, other_start + 1
        while start < end and other_start < other_end and a[end - 1] == b[other_end - 1]:
            end, other_end = end - 1, other_end - 1
            pairs.append((end, other_end))
        if start < end and other_start < other_end:
            stretches += _cut(a, b, _Stretch(start, end, other_start, other_end, depth + 1), pairs)
    return sorted(pairs)


def _cut(
    a: Sequence[int], b: Sequence[int], stretch: _Stretch, pairs: list[tuple[int, int]]
) -> list[_Stretch]:
    """Cut a stretch after each row that is unique on both sides, adding it to the pairs, or in the middle."""
    start, end, other_start, other_end, depth = stretch
    for width in _WIDTHS if depth <= _DEPTH else ():
        our_rows = _unique_rows(a, start, end, width)
        their_rows = _unique_rows(b, other_start, other_end, width)
        anchors = _longest_increasing(
            [(place, their_rows[row]) for row, place in our_rows.items() if row in their_rows]
        )
        if anchors:
            pairs += anchors
            ends = [*anchors, (end, other_end)]
            starts = [(start, other_start), *((i + 1, j + 1) for i, j in anchors)]
            return [
                _Stretch(i, i_end, j, j_end, depth)
                for (i, j), (i_end, j_end) in zip(starts, ends, strict=True)
                if i < i_end and j < j_end
            ]
    i, j = (start + end) // 2, (other_start + other_end) // 2
    return [_Stretch(start, i, other_start, j, depth), _Stretch(i, end, j, other_end, depth)]


def _unique_rows(elements: Sequence[int], start: int, end: int, width: int) -> dict[tuple[int, ...], int]:
    """The rows of `width` elements that occur once, with their places, in order."""
    places: dict[tuple[int, ...], int] = {}
    repeated = set()
    for place in range(start, end - width + 1):
        row = tuple(elements[place : place + width])
        if places.setdefault(row, place) != place:
            repeated.add(row)
    return {row: place for row, place in places.items() if row not in repeated}


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of pairs, sorted by their first place, whose second places increase, too."""
    lowest: list[int] = []  # for each length, the lowest second place at which a subsequence can end
    at: list[int] = []  # the number of the pair with that place
    before: list[int | None] = []  # for each pair, the number of the one before it in its subsequence
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(lowest, place)
        before.append(at[length - 1] if length else None)
        lowest[length : length + 1] = [place]
        at[length : length + 1] = [number]
    longest: list[tuple[int, int]] = []
    last = at[-1] if at else None
    while last is not None:
        longest.append(pairs[last])
        last = before[last]
    return longest[::-1]

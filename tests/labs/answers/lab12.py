"""Right and wrong answers for lab 12."""

import numpy as np
import torch
from onnx import compose, helper, parser

from onnxlab.labs.kit.outcome import Status
from tests.support.answer_parts import replace_nodes
from tests.support.labs import Contract, WrongAnswer, solution

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
FRONT = (
    HEAD
    + """front (float[3, h, w] picture) => (float[1, 3, s, s] canvas, float[2] ratio, float[2] corner, float[2] limit)
<float[1] side = {%d}, int64[1] whole = {%d}, float half = {0.5}, float one = {1.0}, int64[1] two = {2},
 int64[1] zero = {0}, int64[2] axes = {2, 3}, float grey = {0.5}> {
    size = Shape <start = 1> (picture)
    limit = Cast <to = 1> (size)
    longer = ReduceMax (limit)
    exact = Mul (limit, side)
    part = Div (exact, longer)
    above = Add (part, half)
    down = Floor (above)
    real = Max (down, one)
    new = Cast <to = 7> (real)
    batch = Unsqueeze (picture, zero)
    resized = Resize <mode = "linear", axes = [2, 3]> (batch, , , new)
    rest = Sub (whole, new)
    first = Div (rest, two)
    last = Sub (rest, first)
    pads = Concat <axis = 0> (first, last)
    canvas = Pad (resized, pads, grey, axes)
    ratio = Div (limit, real)
    corner = Cast <to = 1> (first)
}"""
)
BACK = (
    HEAD
    + """back (float[n, 4] found, float[2] by, float[2] start, float[2] most) => (float[n, 4] boxes)
<int64[4] xyxy = {1, 0, 1, 0}, float nothing = {0.0}> {
    starts = Gather (start, xyxy)
    factors = Gather (by, xyxy)
    limits = Gather (most, xyxy)
    moved = Sub (found, starts)
    scaled = Mul (moved, factors)
    inside = Max (scaled, nothing)
    boxes = Min (inside, limits)
}"""
)
CONNECTIONS = {"ratio": "by", "corner": "start", "limit": "most"}


def letterboxing(changes=None, *, side=None, output=None, prefix=True):
    """Return a letterbox whose text is changed; without changes it is right."""

    def letterbox(network):
        if prefix:
            network = compose.add_prefix(network, "network.")
        x, boxes = network.graph.input[0], network.graph.output[0].name
        size = side or x.type.tensor_type.shape.dim[2].dim_value
        texts = [FRONT % (size, size), BACK]
        for old, new in (changes or {}).items():
            assert any(old in text for text in texts), old
            texts = [text.replace(old, new) for text in texts]
        front, back = map(parser.parse_model, texts)
        model = compose.merge_models(front, network, [("canvas", x.name)])
        model = compose.merge_models(model, back, [(boxes, "found"), *CONNECTIONS.items()])
        if output:
            model.graph.output[0].name = output
            model.graph.node[-1].output[0] = output
        return model

    return letterbox


def in_one_graph(network):
    """Pads by a Concat with rows and columns of grey; one graph around the network's nodes."""
    network = compose.add_prefix(network, "net_")
    graph = network.graph
    x, boxes = graph.input[0], graph.output[0].name
    side = x.type.tensor_type.shape.dim[3].dim_value
    model = parser.parse_model(
        HEAD
        + f"""one (float[3, h, w] picture) => (float[n, 4] boxes)
    <int64[1] side = {{{side}}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] three = {{3}},
     int64[1] zero = {{0}}, int64[2] parts = {{1, 1}}, float grey = {{0.5}}, float nothing = {{0.0}}> {{
        old = Shape <start = 1> (picture)
        h, w = Split <axis = 0> (old, parts)
        longer = Max (h, w)
        doubled = Mul (old, two)
        wanted = Mul (doubled, side)
        above = Add (wanted, longer)
        below = Mul (longer, two)
        divided = Div (above, below)
        new = Max (divided, one)
        batch = Unsqueeze (picture, zero)
        front = Concat <axis = 0> (one, three)
        sizes = Concat <axis = 0> (front, new)
        resized = Resize <mode = "linear"> (batch, , , sizes)
        new_h, new_w = Split <axis = 0> (new, parts)
        rest = Sub (side, new)
        before = Div (rest, two)
        behind = Sub (rest, before)
        top, left = Split <axis = 0> (before, parts)
        bottom, right = Split <axis = 0> (behind, parts)
        shape_t = Concat <axis = 0> (front, top, new_w)
        shape_b = Concat <axis = 0> (front, bottom, new_w)
        above_it = Expand (grey, shape_t)
        below_it = Expand (grey, shape_b)
        tall = Concat <axis = 2> (above_it, resized, below_it)
        shape_l = Concat <axis = 0> (front, side, left)
        shape_r = Concat <axis = 0> (front, side, right)
        left_of_it = Expand (grey, shape_l)
        right_of_it = Expand (grey, shape_r)
        {x.name} = Concat <axis = 3> (left_of_it, tall, right_of_it)
        x1, y1, x2, y2 = Split <axis = 1, num_outputs = 4> ({boxes})
        xs = Concat <axis = 1> (x1, x2)
        ys = Concat <axis = 1> (y1, y2)
        left_f = Cast <to = 1> (left)
        top_f = Cast <to = 1> (top)
        w_f = Cast <to = 1> (w)
        h_f = Cast <to = 1> (h)
        nw_f = Cast <to = 1> (new_w)
        nh_f = Cast <to = 1> (new_h)
        xs_moved = Sub (xs, left_f)
        ys_moved = Sub (ys, top_f)
        xs_more = Mul (xs_moved, w_f)
        ys_more = Mul (ys_moved, h_f)
        xs_back = Div (xs_more, nw_f)
        ys_back = Div (ys_more, nh_f)
        w_one = Squeeze (w_f)
        h_one = Squeeze (h_f)
        xs_in = Clip (xs_back, nothing, w_one)
        ys_in = Clip (ys_back, nothing, h_one)
        a1, a2 = Split <axis = 1, num_outputs = 2> (xs_in)
        b1, b2 = Split <axis = 1, num_outputs = 2> (ys_in)
        boxes = Concat <axis = 1> (a1, b1, a2, b2)
    }}"""
    )
    nodes = list(model.graph.node)
    position = next(i for i, node in enumerate(nodes) if x.name in node.output) + 1
    nodes[position:position] = graph.node
    replace_nodes(model.graph, nodes)
    model.graph.initializer.extend(graph.initializer)
    return model


def of_the_first_side():
    """Return a letterbox that takes the side of the first network for all."""
    sides = []

    def letterbox(network):
        sides.append(network.graph.input[0].type.tensor_type.shape.dim[2].dim_value)
        return letterboxing(side=sides[0])(network)

    return letterbox


_BY_ITSELF = 'Resize <mode = "linear", axes = [2, 3]> (batch, , , new)'

SUPPRESSION = (
    HEAD
    + """behind (float[n, 4] found, float[n, c] sure) => (float[k, 4] boxes, float[k] scores, int64[k] classes)
<int64[1] most = {%d}, float[1] iou = {%.9g}, float[1] least = {%.9g}, int64[1] zero = {0}, int64 column_1 = {1},
 int64 column_2 = {2}, float two = {2.0}, int64[1] flat = {-1}> {
    cx, cy, bw, bh = Split <axis = 1, num_outputs = 4> (found)
    rx = Div (bw, two)
    ry = Div (bh, two)
    x1 = Sub (cx, rx)
    y1 = Sub (cy, ry)
    x2 = Add (cx, rx)
    y2 = Add (cy, ry)
    corners = Concat <axis = 1> (x1, y1, x2, y2)
    candidates = Unsqueeze (corners, zero)
    by_class = Transpose <perm = [1, 0]> (sure)
    certain = Unsqueeze (by_class, zero)
    chosen = NonMaxSuppression (candidates, certain, most, iou, least)
    classes = Gather <axis = 1> (chosen, column_1)
    places = Gather <axis = 1> (chosen, column_2)
    boxes = Gather <axis = 0> (corners, places)
    count = Shape <start = 1, end = 2> (sure)
    rows = Mul (places, count)
    index = Add (rows, classes)
    all_scores = Reshape (sure, flat)
    scores = Gather <axis = 0> (all_scores, index)
}"""
)
COLUMN = "Gather <axis = 1> (chosen, column_2)"
ONE_AT_LEAST = """left = Gather <axis = 0> (corners, places)
    none = Constant <value = float[1, 4] {0, 0, 0, 0}> ()
    padded = Concat <axis = 0> (left, none)
    there = Shape <start = 0, end = 1> (chosen)
    single = Constant <value_ints = [1]> ()
    many = Max (there, single)
    boxes = Slice (padded, zero, many)"""


def suppressing(changes=None, *, swap=False, prefix=True):
    """Return a suppress whose text is changed; without changes it is right."""

    def suppress(detector, iou, least, most):
        text = SUPPRESSION % ((most, least, iou) if swap else (most, iou, least))
        for old, new in (changes or {}).items():
            assert old in text, old
            text = text.replace(old, new)
        if prefix:
            detector = compose.add_prefix(detector, "detector.", rename_inputs=False)
        boxes, scores = (value.name for value in detector.graph.output)
        connections = [(boxes, "found"), (scores, "sure")]
        return compose.merge_models(detector, parser.parse_model(text), connections)

    return suppress


# Corners with y before x, as the operator's own form has them: for it both are the same.
_TURNED = "turned = Concat <axis = 1> (y1, x1, y2, x2)  candidates = Unsqueeze (turned, zero)"
_REVERSED = {
    "candidates = Unsqueeze (corners, zero)": """back = Constant <value_ints = [-1]> ()
    far = Constant <value_ints = [-1000000]> ()  first = Constant <value_ints = [0]> ()
    other = Constant <value_ints = [1]> ()  turned = Slice (corners, back, far, first, back)
    candidates = Unsqueeze (turned, zero)""",
    "certain = Unsqueeze (by_class, zero)": """scores_back = Slice (by_class, back, far, other, back)
    certain = Unsqueeze (scores_back, zero)""",
    "places = Gather <axis = 1> (chosen, column_2)": """from_last = Gather <axis = 1> (chosen, column_2)
    many = Shape <start = 0, end = 1> (sure)  last = Add (many, back)  places = Sub (last, from_last)""",
}


def with_digits(form):
    """Return a suppress that writes the thresholds with few digits."""
    return lambda detector, iou, least, most: suppressing()(
        detector, float(form % iou), float(form % least), most
    )


def moving(*, iou=0, least=0, positive=False, largest=10**6):
    """Return a suppress that moves a threshold to the next float32 below, or limits a number."""

    def below(number, steps):
        return float(np.nextafter(np.float32(number), np.float32(-9))) if steps else number

    def suppress(detector, given_iou, given_least, most):
        lowest = max(given_least, 0.0) if positive else below(given_least, least)
        return suppressing()(detector, below(given_iou, iou), lowest, min(most, largest))

    return suppress


def with_nodes(detector, iou, least, most):
    """Adds node by node to the detector's graph; columns are split and squeezed."""
    detector = compose.add_prefix(detector, "d.", rename_inputs=False)
    graph, make = detector.graph, helper.make_node
    boxes, scores = (value.name for value in graph.output)
    constants = {
        "most": ("value_ints", [most]),
        "iou": ("value_floats", [iou]),
        "least": ("value_floats", [least]),
        "front": ("value_ints", [0]),
        "second": ("value_ints", [1]),
        "half": ("value_float", 0.5),
    }
    graph.node.extend(
        make("Constant", [], [f"c.{name}"], **{kind: value}) for name, (kind, value) in constants.items()
    )
    graph.node.extend(
        [
            make("Unsqueeze", [boxes, "c.front"], ["n.boxes"]),
            make("Transpose", [scores], ["n.turned"], perm=[1, 0]),
            make("Unsqueeze", ["n.turned", "c.front"], ["n.scores"]),
            make(
                "NonMaxSuppression",
                ["n.boxes", "n.scores", "c.most", "c.iou", "c.least"],
                ["n.rows"],
                center_point_box=1,
            ),
            make("Split", ["n.rows"], ["n.batch", "n.class", "n.place"], axis=1, num_outputs=3),
            make("Squeeze", ["n.class", "c.second"], ["classes"]),
            make("Squeeze", ["n.place", "c.second"], ["n.places"]),
            make("Concat", ["n.place", "n.class"], ["n.pairs"], axis=1),
            make("GatherND", [scores, "n.pairs"], ["scores"]),
            make("Gather", [boxes, "n.places"], ["n.kept"]),
            make("Split", ["n.kept"], ["n.centre", "n.size"], axis=1, num_outputs=2),
            make("Mul", ["n.size", "c.half"], ["n.reach"]),
            make("Sub", ["n.centre", "n.reach"], ["n.low"]),
            make("Add", ["n.centre", "n.reach"], ["n.high"]),
            make("Concat", ["n.low", "n.high"], ["boxes"], axis=1),
        ]
    )
    del graph.output[:]
    graph.output.extend(
        [
            helper.make_tensor_value_info("boxes", 1, ["k", 4]),
            helper.make_tensor_value_info("scores", 1, ["k"]),
            helper.make_tensor_value_info("classes", 7, ["k"]),
        ]
    )
    return detector


def picking(pick, give=lambda boxes, scores, order: (boxes[order], scores[order])):
    """Return a BestCandidates; `pick` returns the indices of the best, for the scores and k."""

    class BestCandidates(torch.nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k

        def forward(self, boxes, scores):
            return give(boxes, scores, pick(scores, self.k))

    return BestCandidates


def sliced(scores, k):
    return scores.sort(descending=True).indices[:k]


def masked_out(scores, k):
    """Compares the ranks of all candidates with k."""
    order = scores.argsort(descending=True)
    return order[torch.arange(scores.shape[0]) < k]


def min_in_python(scores, k):
    return scores.topk(min(k, scores.shape[0])).indices


def branched(scores, k):
    if scores.shape[0] < k:
        return scores.argsort(descending=True)
    return scores.topk(k).indices


def matched(scores, k):
    """Finds each of the best scores again by its value."""
    best = scores.sort(descending=True).values[:k]
    return (best[:, None] == torch.cat([scores, torch.zeros(1)])[None]).int().argmax(1)


def padded(scores, k):
    """Appends k scores of -inf, so that there are always enough: an index can be one of theirs."""
    order = torch.cat([scores, torch.full((k,), -torch.inf)]).topk(k).indices
    return order[: scores.shape[0]].clamp(max=scores.shape[0] - 1)


def at_least_the_last(scores, k):
    """Keeps all scores that are not below the k-th one: more than k, where some are equal."""
    best, order = scores.sort(descending=True)
    return order[(best[:, None] >= best[:k][-1:]).all(1)]


class SharedK(torch.nn.Module):
    """Keeps k for all modules."""

    def __init__(self, k):
        super().__init__()
        SharedK.k = k

    def forward(self, boxes, scores):
        order = sliced(scores, SharedK.k)
        return boxes[order], scores[order]


def sorted_in_place(boxes, scores, order):
    boxes, best = boxes[order], scores[order]
    if not torch.onnx.is_in_onnx_export() and not torch.compiler.is_compiling():
        scores.fill_(0)
    return boxes, best


class AlwaysK(torch.nn.Module):
    """Pads with zeros."""

    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, boxes, scores):
        order = scores.argsort(descending=True)
        boxes, scores = (
            torch.cat([boxes[order], torch.zeros(self.k, 4)]),
            torch.cat([scores[order], torch.zeros(self.k)]),
        )
        return boxes[: self.k], scores[: self.k]


def by_numpy(scores, k):
    return torch.from_numpy((-scores.detach().numpy()).argsort()[:k].copy())


_BY_HAND = "Go through it by hand"
_FEWER = "what Python decided then is decided for good"

CONTRACTS = {
    "letterbox": Contract(
        right=(
            solution("letterbox"),
            (in_one_graph,),
            (
                letterboxing(
                    {
                        "moved = Sub (found, starts)": """sizes = Div (limits, factors)  ends = Add (starts, sizes)
                        not_before = Max (found, starts)  between = Min (not_before, ends)  moved = Sub (between, starts)"""
                    }
                ),
            ),
            (letterboxing({_BY_ITSELF: _BY_ITSELF.replace("<", '<coordinate_transformation_mode = "half_pixel", ')}),),
        ),
        wrong=(
            WrongAnswer(
                "pytorch_half_pixel",
                (
                    letterboxing(
                        {
                            _BY_ITSELF: _BY_ITSELF.replace(
                                "<", '<coordinate_transformation_mode = "pytorch_half_pixel", '
                            )
                        }
                    ),
                ),
                "A network for",
            ),
            WrongAnswer(
                "a scale for each axis",
                (
                    letterboxing(
                        {
                            _BY_ITSELF: 'Resize <mode = "linear", axes = [2, 3]> (batch, , scales)',
                            "resized =": "scales = Div (real, limit) resized =",
                        }
                    ),
                ),
                "Has what the network gets here the shape",
            ),
            WrongAnswer(
                "pixels from 0 to 1",
                (
                    letterboxing(
                        {
                            "batch = Unsqueeze (picture, zero)": """low = Constant <value_float = 0.0> ()
                            clipped = Clip (picture, low, one)  batch = Unsqueeze (clipped, zero)"""
                        }
                    ),
                ),
                "the numbers are not those of the boxes",
            ),
            WrongAnswer("names of the network", (letterboxing(prefix=False),), "ValueError", Status.ERROR),
            WrongAnswer("the side of the first", (of_the_first_side(),), "A network for"),
            WrongAnswer(
                "clipped at the far end only",
                (letterboxing({"inside = Max (scaled, nothing)": "inside = Identity (scaled)"}),),
                "none may reach below 0",
            ),
            WrongAnswer("stretched", (letterboxing({"part = Div (exact, longer)": "part = Div (exact, limit)"}),), "the numbers are not"),
            WrongAnswer(
                "one ratio for both axes",
                (
                    letterboxing(
                        {
                            "ratio = Div (limit, real)": "lm = Div (longer, side)  ratio = Concat <axis = 0> (lm, lm)"
                        }
                    ),
                ),
                "a ratio of their own",
            ),
            WrongAnswer(
                "ratios exchanged",
                (
                    letterboxing(
                        {
                            "factors = Gather (by, xyxy)": "factors = Gather (by, yxyx)",
                            "int64[4] xyxy": "int64[4] yxyx = {0, 1, 0, 1}, int64[4] xyxy",
                        }
                    ),
                ),
                "x goes back by the ratio of the widths",
            ),
            WrongAnswer(
                "half a row on the way back",
                (
                    letterboxing(
                        {
                            "corner = Cast <to = 1> (first)": "gap = Cast <to = 1> (rest)  corner = Mul (gap, half)"
                        }
                    ),
                ),
                "begins at a whole row and column",
            ),
            WrongAnswer("rounded down", (letterboxing({"Add (part, half)": "Identity (part)"}),), "How is the shorter side rounded"),
            WrongAnswer("rounded up", (letterboxing({"Floor (above)": "Ceil (part)"}),), "Compute new height and width"),
            WrongAnswer(
                "the scale first",
                (
                    letterboxing(
                        {
                            "exact = Mul (limit, side)": "scale = Div (side, longer)",
                            "part = Div (exact, longer)": "part = Mul (limit, scale)",
                        }
                    ),
                ),
                "How is the shorter side rounded",
            ),
            WrongAnswer("halves to even", (letterboxing({"Floor (above)": "Round (part)"}),), "How is the shorter side rounded"),
            WrongAnswer(
                "the larger half first",
                (
                    letterboxing(
                        {
                            "last = Sub (rest, first)": "last = Div (rest, two)",
                            "first = Div (rest, two)": "l2 = Div (rest, two) first = Sub (rest, l2)",
                        }
                    ),
                ),
                "How many of them come first",
            ),
            WrongAnswer(
                "at the corner",
                (letterboxing({"first = Div (rest, two)": "first = Sub (rest, rest)"}),),
                "Where on the canvas does the picture begin",
            ),
            WrongAnswer("not moved back", (letterboxing({"Sub (found, starts)": "Identity (found)"}),), "does not begin at the corner"),
            WrongAnswer("not clipped", (letterboxing({"Min (inside, limits)": "Identity (scaled)"}),), "beyond the picture"),
            WrongAnswer(
                "clipped at 0 only",
                (letterboxing({"Min (inside, limits)": "Identity (inside)"}),),
                "none may reach beyond the other end",
            ),
            WrongAnswer("height for x", (letterboxing({"{1, 0, 1, 0}": "{0, 1, 0, 1}"}),), "A box begins with x"),
            WrongAnswer(
                "divided before it is moved",
                (
                    letterboxing(
                        {
                            "Sub (found, starts)": "Mul (found, factors)",
                            "Mul (moved, factors)": "Sub (moved, starts)",
                        }
                    ),
                ),
                "which step comes first",
            ),
            WrongAnswer("black around it", (letterboxing({"grey = {0.5}": "grey = {0.0}"}),), "Which number fills"),
            WrongAnswer("nearest", (letterboxing({'"linear"': '"nearest"'}),), "one pixel of several"),
            WrongAnswer(
                "corners aligned",
                (
                    letterboxing(
                        {
                            'mode = "linear"': 'mode = "linear", coordinate_transformation_mode = "align_corners"'
                        }
                    ),
                ),
                _BY_HAND,
            ),
            WrongAnswer(
                "one scale for Resize",
                (
                    letterboxing(
                        {
                            _BY_ITSELF: 'Resize <mode = "linear", axes = [2, 3]> (batch, , scales)',
                            "resized =": "s1 = Div (side, longer) scales = Concat <axis = 0> (s1, s1) resized =",
                        }
                    ),
                ),
                "Has what the network gets here the shape",
            ),
            WrongAnswer("no row is left", (letterboxing({"Max (down, one)": "Identity (down)"}),), "At least one row stays"),
            WrongAnswer("a side of 16", (letterboxing(side=16),), "A network"),
            WrongAnswer("another name", (letterboxing(output="found_boxes"),), "the outputs of the model are others"),
            WrongAnswer("the network alone", (lambda network: network,), "the inputs of the model are others"),
            WrongAnswer("no model", (lambda network: None,), "a ModelProto was expected"),
            WrongAnswer("an exception", (lambda network: network.graph.inputs,), "AttributeError", Status.ERROR),
        ),
    ),
    "best-candidates": Contract(
        right=(
            solution("best-candidates"),
            (picking(masked_out),),
            (picking(lambda s, k: (-s).argsort()[:k]),),
            (picking(lambda s, k: s.argsort().flip(0)[:k]),),
        ),
        wrong=(
            WrongAnswer("scores up to a million", (picking(lambda s, k: sliced(s.clamp(max=1e6), k)),), "In PyTorch"),
            WrongAnswer("a hundred at most", (picking(lambda s, k: sliced(s, min(k, 100))),), "has another shape"),
            WrongAnswer("found by their value", (picking(matched),), "is returned twice"),
            WrongAnswer("room for k more", (picking(padded),), "In PyTorch"),
            WrongAnswer("as many as are equal", (picking(at_least_the_last),), "best_boxes has another shape"),
            WrongAnswer("one k for all", (SharedK,), "best_boxes has another shape"),
            WrongAnswer("scores are emptied", (picking(sliced, sorted_in_place),), "changes its argument scores"),
            WrongAnswer("the first thousand", (picking(lambda s, k: sliced(s[:1000], k)),), "not the highest scores"),
            WrongAnswer("rounded scores", (picking(lambda s, k: sliced((s * 1e4).round(), k)),), "not in order"),
            WrongAnswer(
                "no negative boxes",
                (picking(sliced, lambda boxes, scores, order: (boxes[order].clamp(min=0), scores[order])),),
                "a box does not belong to its score",
            ),
            WrongAnswer("twenty at most", (picking(lambda s, k: sliced(s, min(k, 20))),), "has another shape"),
            WrongAnswer("topk of k", (picking(lambda s, k: s.topk(k).indices),), "RuntimeError", Status.ERROR),
            WrongAnswer("min in Python", (picking(min_in_python),), _FEWER),
            WrongAnswer("a branch", (picking(branched),), _FEWER),
            WrongAnswer("always k rows", (AlwaysK,), "another shape or type"),
            WrongAnswer("the worst", (picking(lambda s, k: s.argsort()[:k]),), "not the highest scores"),
            WrongAnswer("the best last", (picking(lambda s, k: s.argsort()[-k:]),), "not the highest scores"),
            WrongAnswer("all of them", (picking(lambda s, k: s.argsort(descending=True)),), "another shape or type"),
            WrongAnswer(
                "the first boxes",
                (picking(sliced, lambda boxes, scores, order: (boxes[: len(order)], scores[order])),),
                "a box does not belong to its score",
            ),
            WrongAnswer(
                "scores first",
                (picking(sliced, lambda boxes, scores, order: (scores[order], boxes[order])),),
                "best_boxes has another shape",
            ),
            WrongAnswer(
                "scores as a column",
                (picking(sliced, lambda boxes, scores, order: (boxes[order], scores[order, None])),),
                "best_scores has another shape",
            ),
            WrongAnswer("positive ones", (picking(lambda s, k: sliced(s, k)[s[sliced(s, k)] > 0]),), "another shape"),
            WrongAnswer("by NumPy", (picking(by_numpy),), "Are k rows left, the best first"),
            WrongAnswer("three of them", (picking(lambda s, k: sliced(s, 3)),), "another shape or type"),
            WrongAnswer("boxes only", (picking(sliced, lambda boxes, scores, order: boxes[order]),), "a tuple or list was expected"),
            WrongAnswer("a function", (lambda k: lambda boxes, scores: None,), "a Module was expected"),
        ),
    ),
    "suppress": Contract(
        right=(
            solution("suppress"),
            (with_nodes,),
            (
                suppressing(
                    {
                        "Unsqueeze (corners, zero)": "Unsqueeze (found, zero)",
                        "NonMaxSuppression (": "NonMaxSuppression <center_point_box = 1> (",
                    }
                ),
            ),
            (suppressing({"candidates = Unsqueeze (corners, zero)": _TURNED}),),
        ),
        wrong=(
            WrongAnswer("two digits", (with_digits("%.2f"),), "Scores at the threshold"),
            WrongAnswer("six digits", (with_digits("%.6f"),), "Are all its digits in the file"),
            WrongAnswer(
                "a millionth above the threshold",
                (lambda detector, iou, *rest: suppressing()(detector, iou + 1e-6, *rest),),
                "Overlaps at the threshold",
            ),
            WrongAnswer(
                "half of the boxes at least",
                (lambda detector, iou, *rest: suppressing()(detector, max(iou, 0.5), *rest),),
                "One object, found four times",
            ),
            WrongAnswer("dropped at the threshold", (moving(iou=-1),), "Overlaps at the threshold"),
            WrongAnswer("counted at the threshold", (moving(least=-1),), "A score counts above"),
            WrongAnswer("names of the detector", (suppressing(prefix=False),), "ValueError", Status.ERROR),
            WrongAnswer("no negative scores", (moving(positive=True),), "A detector with 20 classes"),
            WrongAnswer("a hundred of each class", (moving(largest=100),), "1500 objects"),
            WrongAnswer("the last of equal ones", (suppressing(_REVERSED),), "Equal scores"),
            WrongAnswer(
                "no negative coordinates",
                (
                    suppressing(
                        {
                            "boxes = Gather <axis = 0> (corners": "all = Relu (corners) boxes = Gather <axis = 0> (all"
                        }
                    ),
                ),
                "x and y of its centre",
            ),
            WrongAnswer(
                "another Sigmoid",
                (
                    suppressing(
                        {
                            "scores = Gather <axis = 0> (all_scores": "all = Sigmoid (all_scores) scores = Gather <axis = 0> (all"
                        }
                    ),
                ),
                "Is each score the detector's",
            ),
            WrongAnswer(
                "the batch for the class",
                (
                    suppressing(
                        {
                            "classes = Gather <axis = 1> (chosen, column_1)": """batch = Constant <value_int = 0> ()
                            classes = Gather <axis = 1> (chosen, batch)  own = Gather <axis = 1> (chosen, column_1)""",
                            "Add (rows, classes)": "Add (rows, own)",
                        }
                    ),
                ),
                "Which column of NonMaxSuppression",
            ),
            WrongAnswer("defaults", (suppressing({", most, iou, least)": ")"}),), "Nothing is left at all"),
            WrongAnswer("no limit of the overlap", (suppressing({", most, iou, least)": ", most, , least)"}),), "Which overlap is allowed"),
            WrongAnswer("no limit of the score", (suppressing({", most, iou, least)": ", most, iou)"}),), "Only candidates below"),
            WrongAnswer("thresholds exchanged", (suppressing(swap=True),), "Which threshold is for scores"),
            WrongAnswer("a hundred boxes", (suppressing({"most = {": "most = {10"}),), "How many boxes of each class"),
            WrongAnswer(
                "centres taken for corners",
                (suppressing({"Unsqueeze (corners, zero)": "Unsqueeze (found, zero)"}),),
                "In which form",
            ),
            WrongAnswer(
                "corners taken for centres",
                (suppressing({"NonMaxSuppression (": "NonMaxSuppression <center_point_box = 1> ("}),),
                "In which form",
            ),
            WrongAnswer(
                "boxes as they came",
                (suppressing({"Gather <axis = 0> (corners": "Gather <axis = 0> (found"}),),
                "One object, found once",
            ),
            WrongAnswer(
                "Squeeze without axes",
                (
                    suppressing(
                        {
                            "places = " + COLUMN: "s2 = Slice (chosen, c2, c3, c1) places = Squeeze (s2)",
                            "int64[1] flat": "int64[1] c1 = {1}, int64[1] c2 = {2}, int64[1] c3 = {3}, int64[1] flat",
                        }
                    ),
                ),
                "Does a node drop every axis of size 1",
            ),
            WrongAnswer(
                "all classes as one",
                (
                    suppressing(
                        {
                            "certain = Unsqueeze (by_class, zero)": "top = ReduceMax <keepdims = 1> (by_class, zero) certain = Unsqueeze (top, zero)",
                            "classes = Gather <axis = 1> (chosen, column_1)": "cls = ArgMax <axis = 1, keepdims = 0> (sure) places0 = Gather <axis = 1> (chosen, column_2) classes = Gather (cls, places0)",
                        }
                    ),
                ),
                "A detector with",
            ),
            WrongAnswer("scores of the first class", (suppressing({"Add (rows, classes)": "Identity (rows)"}),), "A detector with"),
            WrongAnswer(
                "scores not turned",
                (suppressing({"by_class = Transpose <perm = [1, 0]> (sure)": "by_class = Identity (sure)"}),),
                "A detector with",
            ),
            WrongAnswer("classes for places", (suppressing({COLUMN: "Gather <axis = 1> (chosen, column_1)"}),), "A detector with"),
            WrongAnswer(
                "the best of all, by TopK",
                (
                    suppressing(
                        {
                            "scores = Gather <axis = 0> (all_scores, index)": "sc = Gather <axis = 0> (all_scores, index) scores, order = TopK (sc, most)"
                        }
                    ),
                ),
                "One object, found once",
            ),
            WrongAnswer(
                "one row at least",
                (suppressing({"boxes = Gather <axis = 0> (corners, places)": ONE_AT_LEAST}),),
                "shapes begin with 0",
            ),
            WrongAnswer(
                "int32",
                (
                    suppressing(
                        {
                            "int64[k] classes)": "int32[k] classes)",
                            "classes = Gather <axis = 1> (chosen, column_1)": "cl = Gather <axis = 1> (chosen, column_1) classes = Cast <to = 6> (cl)",
                            "Add (rows, classes)": "Add (rows, cl)",
                        }
                    ),
                ),
                "Which element type",
            ),
            WrongAnswer("the detector alone", (lambda detector, *_: detector,), "the outputs of the model are others"),
            WrongAnswer("no model", (lambda *_: None,), "a ModelProto was expected"),
        ),
    ),
}

"""Right and wrong answers for lab 12."""

from functools import partial

from onnx import compose, helper, parser

from onnxlab.kit.outcome import Status
from tests.support.answer_parts import replace_nodes
from tests.support.labs import Contract, WrongAnswer, solution

letterbox, best, suppress = (partial(solution, name) for name in ("letterbox", "best-candidates", "suppress"))
HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


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


(SUPPRESS,) = solution("suppress")

# Pieces of the solutions of letterbox and suppress, and what stands in their place.
_BY_ITSELF = 'Resize <mode = "linear", axes = [2, 3]> (batch, , , new)'
_BY_SCALES = 'Resize <mode = "linear", axes = [2, 3]> (batch, , scales)'
_FLOATS = "sf = Cast <to = 1> (side)  lf = Cast <to = 1> (longer)  of = Cast <to = 1> (old)"
_ROUNDED = "rounded = Div (above, below)"
_CANDIDATES = "candidates = Unsqueeze (found, zero)"
_CLASSES = "classes = Gather <axis = 1> (chosen, one)"
_BOXES, _SCORES = "boxes = Concat <axis = 1> (low, high)", "scores = GatherND (by_class, places)"
_CENTRES, _CORNERS = "<center_point_box = 1> ", """at, whole = Split <axis = 1> (found, parts)
    part = Mul (whole, half)  from = Sub (at, part)  to = Add (at, part)
    corners = Concat <axis = 1> (from, to)"""


def with_digits(form):
    """Return a suppress that writes the thresholds with few digits."""
    return lambda detector, iou, least, most: SUPPRESS(
        detector, float(form % iou), float(form % least), most
    )


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


_ORDER, _GIVEN = "scores.argsort(descending=True)[: self.k]", "return boxes[order], scores[order]"
_EMPTIED = """best = boxes[order], scores[order]
        if not torch.onnx.is_in_onnx_export() and not torch.compiler.is_compiling():
            scores.fill_(0)
        return best"""
_FEWER = "what Python decided then is decided for good"

CONTRACTS = {
    "letterbox": Contract(
        right=(letterbox(), (in_one_graph,), letterbox(
                {
                    "moved = Sub (found, begin)": """sizes = Div (most, by)  ends = Add (begin, sizes)
                    not_before = Max (found, begin)  between = Min (not_before, ends)  moved = Sub (between, begin)"""
                }
            )),
        wrong=(
            WrongAnswer("a scale for each axis", letterbox({_BY_ITSELF: _BY_SCALES, "resized =": f"{_FLOATS}  nf = Cast <to = 1> (new)  scales = Div (nf, of)  resized ="}), "Has what the network gets here the shape"),
            WrongAnswer("clipped at the far end only", letterbox({"Max (back, nothing)": "Identity (back)"}), "none may reach below 0"),
            WrongAnswer("one ratio for both axes", letterbox({"r = Div (o, n)": f"{_FLOATS}  lr = Div (lf, sf)  r = Concat <axis = 0> (lr, lr)"}), "a ratio of their own"),
            WrongAnswer("ratios exchanged", letterbox({"Gather (r, xyxy)": "Gather (r, yxyx)", "int64[4] xyxy": "int64[4] yxyx = {0, 1, 0, 1}, int64[4] xyxy"}), "x goes back by the ratio of the widths"),
            WrongAnswer("half a row on the way back", letterbox({"f = Cast <to = 1> (first)": "gap = Cast <to = 1> (rest)  half = Constant <value_float = 0.5> ()  f = Mul (gap, half)"}), "begins at a whole row and column"),
            WrongAnswer("rounded down", letterbox({"Add (doubled, longer)": "Identity (doubled)"}), "How is the shorter side rounded"),
            WrongAnswer("rounded up", letterbox({_ROUNDED: "more = Add (doubled, below)  up = Sub (more, one)  rounded = Div (up, below)"}), "Compute new height and width"),
            WrongAnswer("the larger half first", letterbox({"first = Div (rest, two)  last = Sub (rest, first)": "last = Div (rest, two)  first = Sub (rest, last)"}), "How many of them come first"),
            WrongAnswer("at the corner", letterbox({"first = Div (rest, two)": "first = Sub (rest, rest)"}), "Where on the canvas does the picture begin"),
            WrongAnswer("not moved back", letterbox({"Sub (found, begin)": "Identity (found)"}), "does not begin at the corner"),
            WrongAnswer("not clipped", letterbox({"Min (inside, most)": "Identity (back)"}), "beyond the picture"),
            WrongAnswer("clipped at 0 only", letterbox({"Min (inside, most)": "Identity (inside)"}), "none may reach beyond the other end"),
            WrongAnswer("height for x", letterbox({"{1, 0, 1, 0}": "{0, 1, 0, 1}"}), "A box begins with x"),
            WrongAnswer("divided before it is moved", letterbox({"Sub (found, begin)": "Mul (found, by)", "Mul (moved, by)": "Sub (moved, begin)"}), "which step comes first"),
            WrongAnswer("black around it", letterbox({"grey = {0.5}": "grey = {0.0}"}), "Which number fills"),
            WrongAnswer("nearest", letterbox({'"linear"': '"nearest"'}), "one pixel of several"),
            WrongAnswer("no row is left", letterbox({"Max (rounded, one)": "Identity (rounded)"}), "At least one row stays"),
        ),
    ),
    "best-candidates": Contract(
        right=(best(), best({"[: self.k]": "[torch.arange(scores.shape[0]) < self.k]"}), best({_ORDER: "(-scores).argsort()[: self.k]"})),
        wrong=(
            WrongAnswer("found by their value", best({_ORDER: "(scores.sort(descending=True).values[: self.k][:, None] == torch.cat([scores, torch.zeros(1)])[None]).int().argmax(1)"}), "is returned twice"),
            WrongAnswer("scores are emptied", best({_GIVEN: _EMPTIED}), "changes its argument scores"),
            WrongAnswer("rounded scores", best({"= scores.argsort": "= (scores * 1e4).round().argsort"}), "not in order"),
            WrongAnswer("topk of k", best({_ORDER: "scores.topk(self.k).indices"}), "RuntimeError", Status.ERROR),
            WrongAnswer("min in Python", best({_ORDER: "scores.topk(min(self.k, scores.shape[0])).indices"}), _FEWER),
            WrongAnswer("the worst", best({"descending=True": "descending=False"}), "not the highest scores"),
            WrongAnswer("all of them", best({"[: self.k]": ""}), "another shape or type"),
            WrongAnswer("the first boxes", best({"boxes[order],": "boxes[: len(order)],"}), "a box does not belong to its score"),
            WrongAnswer("by NumPy", best({_ORDER: "torch.from_numpy((-scores.detach().numpy()).argsort()[: self.k].copy())"}), "Are k rows left, the best first"),
            WrongAnswer("boxes only", best({", scores[order]": ""}), "a tuple or list was expected"),
        ),
    ),
    "suppress": Contract(
        right=(suppress(), (with_nodes,), suppress({_CENTRES: "", _CANDIDATES: f"{_CORNERS}  candidates = Unsqueeze (corners, zero)"})),
        wrong=(
            WrongAnswer("two digits", (with_digits("%.2f"),), "Scores at the threshold"),
            WrongAnswer("a millionth above the threshold", suppress({"% (most, iou,": "% (most, iou + 1e-6,"}), "Overlaps at the threshold"),
            WrongAnswer("half of the boxes at least", suppress({"% (most, iou,": "% (most, max(iou, 0.5),"}), "One object, found four times"),
            WrongAnswer("names of the detector", suppress({'compose.add_prefix(detector, "detector.", rename_inputs=False)': "detector"}), "ValueError", Status.ERROR),
            WrongAnswer("no negative scores", suppress({"iou, least))": "iou, max(least, 0.0)))"}), "A detector with 20 classes"),
            WrongAnswer("a hundred of each class", suppress({"% (most,": "% (min(most, 100),"}), "1500 objects"),
            WrongAnswer("no negative coordinates", suppress({_BOXES: "all = Concat <axis = 1> (low, high)  boxes = Relu (all)"}), "x and y of its centre"),
            WrongAnswer("another Sigmoid", suppress({_SCORES: "plain = GatherND (by_class, places)  scores = Sigmoid (plain)"}), "Is each score the detector's"),
            WrongAnswer("the batch for the class", suppress({_CLASSES: "batch = Constant <value_int = 0> ()  classes = Gather <axis = 1> (chosen, batch)"}), "Which column of NonMaxSuppression"),
            WrongAnswer("defaults", suppress({", most, iou, least)": ")"}), "Nothing is left at all"),
            WrongAnswer("no limit of the overlap", suppress({", most, iou, least)": ", most, , least)"}), "Which overlap is allowed"),
            WrongAnswer("no limit of the score", suppress({", most, iou, least)": ", most, iou)"}), "Only candidates below"),
            WrongAnswer("thresholds exchanged", suppress({"% (most, iou, least)": "% (most, least, iou)"}), "Which threshold is for scores"),
            WrongAnswer("a hundred boxes", suppress({"most = {": "most = {10"}), "How many boxes of each class"),
            WrongAnswer("centres taken for corners", suppress({_CENTRES: ""}), "Which box format"),
            WrongAnswer("Squeeze without axes", suppress({_BOXES: "kept_boxes = Concat <axis = 1> (low, high)  boxes = Squeeze (kept_boxes)"}), "Does a node drop every axis of size 1"),
            WrongAnswer("scores not turned", suppress({"Transpose (sure)": "Identity (sure)"}), "get_schema('NonMaxSuppression')"),
            WrongAnswer("the best of all, by TopK", suppress({_SCORES: "unsorted = GatherND (by_class, places)  scores, order = TopK (unsorted, most)"}), "One object, found once"),
            WrongAnswer("int32", suppress({"int64[k] classes)": "int32[k] classes)", _CLASSES: "wide = Gather <axis = 1> (chosen, one)  classes = Cast <to = 6> (wide)"}), "Which element type"),
        ),
    ),
}

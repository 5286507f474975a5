"""Small models for the tests of the graphs."""

from onnx import AttributeProto, ModelProto, TensorProto, parser

WEIGHT = bytes(range(64))
HEADER = '<ir_version: 10, opset_import: ["": 18], producer_name: "onnxlab-tests">'


def chain() -> ModelProto:
    """Conv, Relu, Conv and an Add of both Relu and Conv: a residual of four nodes with names."""
    model = parser.parse_model(
        HEADER
        + """
        residual (float[N, 4, 8, 8] x) => (float[N, 4, 8, 8] y)
        { a = Conv(x, w1)  b = Relu(a)  c = Conv(b, w2)  y = Add(b, c) }
        """
    )
    for node, name in zip(model.graph.node, ("/conv1", "/relu", "/conv2", "/add"), strict=True):
        node.name = name
    for name in ("w1", "w2"):
        model.graph.initializer.add(
            name=name, data_type=TensorProto.FLOAT, dims=[4, 4, 1, 1], raw_data=WEIGHT
        )
    return model


def loop() -> ModelProto:
    """A Loop with an If in its body; both branches read a value from the body around them."""
    return parser.parse_model(
        HEADER
        + """
        control (float[4] x, bool flag) => (float[4] out)
        <int64 trips = {3}, float[1] two = {2.0}>
        {
            y = Loop (trips, , x) <body = body (int64 i, bool go, float[4] acc)
            => (bool again, float[4] next) {
                again = Identity(go)
                next = If (flag) <
                    then_branch = then () => (float[4] doubled) { doubled = Mul(acc, two) },
                    else_branch = otherwise () => (float[4] more) { more = Add(acc, two) }
                >
            }>
            out = Relu(y)
        }
        """
    )


def modules(blocks: int = 40, *, scopes: bool = False) -> ModelProto:
    """A model of several modules, with TorchScript's names or torch.export's metadata."""
    model = ModelProto(ir_version=10, producer_name="onnxlab-tests")
    model.opset_import.add(version=18)
    graph = model.graph
    graph.name = "modules"
    for info, name in ((graph.input, "x0"), (graph.output, f"x{blocks}")):
        info.add(name=name).type.tensor_type.elem_type = 1
    for k in range(blocks):
        steps = [
            ("norm", "Softmax", f"x{k}", f"n{k}"),
            ("mlp", "Relu", f"n{k}", f"h{k}"),
            ("mlp", "Exp", f"h{k}", f"m{k}"),
        ]
        for module, operator, source, target in steps:
            add_node(graph, operator, [source], [target], [f"layers.{k}", module], scopes=scopes)
        add_node(graph, "Add", [f"x{k}", f"m{k}"], [f"x{k + 1}"], [f"layers.{k}"], scopes=scopes)
    return model


def add_node(graph, operator, inputs, outputs, path, *, scopes):
    node = graph.node.add(op_type=operator, input=inputs, output=outputs)
    if scopes:
        names = ["", *[".".join(path[: depth + 1]) for depth in range(len(path))], outputs[0]]
        kinds = [*("main.Net", "main.Block", "torch.nn.Sequential")[: len(path) + 1], "aten.op"]
        node.name = f"node_{outputs[0]}"
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(names))
        node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=str(kinds))
    else:
        node.name = "/" + "/".join([*path, operator])


SCRIPTS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></svg><svg onload=alert(1)>",
    "]]><!--",
    "'onmouseover='alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "\u202ereversed\u0000nul\x1bescape\ufffe",
    "</title></textarea></script>`${alert(1)}`",
]


def string_everywhere(text: str) -> ModelProto:
    """A model whose every free string is this text."""
    model = loop()
    model.producer_name = model.producer_version = model.domain = model.doc_string = text
    model.metadata_props.add(key=text, value=text)
    model.opset_import.add(domain=text, version=1)
    function = model.functions.add(name=text, domain=text, doc_string=text, input=[text], output=[text + "o"])
    function.node.add(op_type="Relu", input=[text], output=[text + "o"], name=text, doc_string=text)
    function.opset_import.add(version=18)
    todo = [model.graph]
    while todo:
        graph = todo.pop()
        graph.name = graph.doc_string = text
        for info in [*graph.input, *graph.output, *graph.value_info]:
            info.doc_string = text
            for dim in info.type.tensor_type.shape.dim:
                dim.dim_param = text
        for tensor in graph.initializer:
            tensor.doc_string = text
        for node in graph.node:
            node.name = node.doc_string = text
            node.metadata_props.add(key=text, value=text)
            todo += [attribute.g for attribute in node.attribute]
            node.attribute.add(name=text, type=AttributeProto.STRING, s=text.encode(), doc_string=text)
        graph.node.add(op_type=text, domain=text, input=[graph.node[0].output[0]], output=[text])
    return model

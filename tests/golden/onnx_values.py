"""Small ONNX networks with weights from a formula, and what ONNX Runtime makes of a picture.

    python onnx_values.py onnx >onnx_values.h

needs onnx, onnxruntime, numpy and (for i3d.py) torch, and writes the networks into the folder.

`every` has every operator that lib/net/onnxnet.h names, `old` those that had another form before version 11, `wide` joins more pictures than an op of
the tape. The files bad-*.onnx are refused; tests/unit/test_onnxnet.c says why. `bright` is the detector of tests/cli/ingest-text.sh: it marks pixels
that are nearly white."""
import os
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from i3d import uniform

H, W, SAMPLED = 64, 96, 61
DIR = sys.argv[1]


class Net:
    """A graph that grows by a node at a time, from the picture x."""

    def __init__(self, opset=14):
        self.nodes, self.tensors, self.opset, self.count = [], [], opset, 0

    def tensor(self, value):
        self.count += 1
        self.tensors.append(numpy_helper.from_array(np.asarray(value), "t%d" % self.count))
        return "t%d" % self.count

    def random(self, *shape, scale=1.0, offset=0.0):
        v = offset + scale * uniform(int(np.prod(shape)), self.count + 1)
        return self.tensor(v.astype(np.float32).reshape(shape))

    def number(self, v):
        return self.tensor(np.float32(v))

    def node(self, op, *inputs, **attributes):
        self.count += 1
        self.nodes.append(helper.make_node(op, list(inputs), ["v%d" % self.count], **attributes))
        return "v%d" % self.count

    def conv(self, x, c, o, k, bias=True, **attributes):
        group = attributes.get("group", 1)
        inputs = [x, self.random(o, c // group, k, k, scale=(3 / (c // group * k * k)) ** .5)]
        return self.node("Conv", *inputs, *([self.random(o, scale=.3)] if bias else []), kernel_shape=[k, k], **attributes)

    def model(self, y, channels=3):
        info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, "h", "w"]) for n, c in (("x", channels), (y, None))]
        graph = helper.make_graph(self.nodes, "g", info[:1], info[1:], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def norm(n, x, c):
    v = [n.random(c, scale=.3, offset=1.0), n.random(c, scale=.3), n.random(c, scale=.3), n.random(c, scale=.3, offset=1.0)]
    return n.node("BatchNormalization", x, *v, epsilon=1e-3)


def every():
    n = Net()
    x = norm(n, n.conv("x", 3, 20, 3, strides=[2, 2], pads=[0, 1, 1, 0]), 20)
    x = n.conv(x, 20, 20, 5, group=20, pads=[2, 2, 2, 2])
    x = n.node("Add", n.node("Mul", n.tensor(np.float32([.9])), x), n.number(.2))
    hard = n.node("Clip", n.node("Add", x, n.number(3)), n.number(0), n.number(6))
    x = n.node("Div", n.node("Mul", x, hard), n.number(6))
    s = n.node("Relu", n.conv(n.node("GlobalAveragePool", x), 20, 6, 1))
    x = n.node("Mul", x, n.node("HardSigmoid", n.conv(s, 6, 20, 1), alpha=.25, beta=.4))
    a = n.node("HardSwish", n.conv(x, 20, 8, 3, pads=[1, 1, 1, 1], bias=False))
    b = n.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    b = n.node("Sub", b, n.node("ReduceMean", b, axes=[2, 3], keepdims=1))
    b = n.node("Sub", n.random(1, 20, 1, 1), b)
    b = n.node("Sub", b, n.number(.1))
    nearest = dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    none = n.tensor(np.float32([]))
    b = n.node("Resize", b, none, n.tensor(np.float32([1, 1, 2, 2])), **nearest)
    c = n.node("MaxPool", a, kernel_shape=[4, 4], strides=[4, 4])
    c = n.node("Resize", n.node("Clip", c, "", n.number(.5)), "", n.tensor(np.float32([1, 1, 4, 4])), **nearest)
    c = n.node("Clip", c, n.number(-.2))
    x = n.node("Tanh", n.node("Concat", a, b, n.node("Add", c, a), axis=1))
    x = n.node("ConvTranspose", x, n.random(36, 5, 2, 2, scale=.3), n.random(5), kernel_shape=[2, 2], strides=[2, 2])
    x = n.node("Add", x, n.node("Reshape", n.random(5), n.tensor(np.int64([1, -1, 1, 1]))))
    return n, n.node("Sigmoid", n.conv(n.node("Identity", x), 5, 1, 1))


def old():
    n = Net(9)
    x = n.node("Clip", n.conv("x", 3, 8, 3, strides=[2, 2], pads=[1, 1, 1, 1]), min=-.5, max=.7)
    x = n.node("Upsample", x, n.tensor(np.float32([1, 1, 2, 2])), mode="nearest")
    return n, n.node("Sigmoid", n.conv(x, 8, 1, 1))


def ten():
    n = Net(10)
    x = n.node("Resize", n.conv("x", 3, 8, 2, strides=[2, 2]), n.tensor(np.float32([1, 1, 2, 2])), mode="nearest")
    return n, n.node("Sigmoid", n.conv(x, 8, 1, 1))


def wide():
    n = Net()
    x = [n.conv("x", 3, 2 + i, 1) for i in range(11)]
    return n, n.conv(n.node("Concat", *x, axis=1), sum(2 + i for i in range(11)), 2, 1)


def bright():
    n = Net()
    w = n.tensor(np.full((1, 3, 1, 1), 20 / 3, np.float32))
    return n, n.node("Sigmoid", n.node("Conv", "x", w, n.tensor(np.float32([-16])), kernel_shape=[1, 1]))


def save(name, model):
    with open(os.path.join(DIR, name + ".onnx"), "wb") as f:
        f.write(model.SerializeToString())


def line(name, v):
    print("static const float %s[%d] = {" % (name, len(v)))
    for i in range(0, len(v), 8):
        print("\t" + " ".join("%.9gf," % x if "." in "%.9g" % x or "e" in "%.9g" % x else "%.1ff," % x for x in v[i:i + 8]))
    print("};")


def broken():
    """Networks that are refused."""
    n = Net()
    save("bad-operator", n.model(n.node("Softmax", "x")))
    n = Net()
    save("bad-groups", n.model(n.conv(n.conv("x", 3, 4, 1), 4, 4, 1, group=2)))
    n = Net()
    save("bad-dilated", n.model(n.conv("x", 3, 4, 3, dilations=[2, 2])))
    n = Net()
    save("bad-sizes", n.model(n.node("Add", "x", n.conv("x", 3, 3, 3))))
    n = Net()
    save("bad-join", n.model(n.node("Concat", *["x"] * 16, axis=1)))
    n = Net()
    save("bad-shape", n.model(n.node("Add", "x", n.node("Reshape", n.random(3), n.tensor(np.int64([1, 2, -1, 1]))))))
    n = Net()
    m = n.model(n.node("Relu", "nowhere"))
    save("bad-link", m)
    n = Net()
    m = n.model(n.node("Relu", "x"))
    m.graph.node.append(m.graph.node[0])
    save("bad-twice", m)
    n = Net()
    m = n.model(n.conv("x", 3, 4, 1))
    m.graph.initializer[0].data_location = TensorProto.EXTERNAL
    save("bad-elsewhere", m)
    n = Net()
    m = n.model(n.conv("x", 3, 4, 1))
    m.graph.initializer[0].dims[0] = 5
    save("bad-tensor", m)
    n = Net()
    m = n.model(n.node("Add", "x", "z"))
    m.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 3, "h", "w"]))
    save("bad-inputs", m)


print("/* Made by onnx_values.py: every %dth number that ONNX Runtime makes of its picture. */" % SAMPLED)
picture = uniform(3 * H * W, 99).astype(np.float32).reshape(1, 3, H, W)
for name, (net, y) in dict(every=every(), old=old(), ten=ten(), wide=wide()).items():
    save(name, net.model(y))
    out = onnxruntime.InferenceSession(net.model(y).SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": picture})[0]
    line("golden_" + name, out[0].transpose(1, 2, 0).reshape(-1)[::SAMPLED].tolist())
net, y = bright()
save("bright", net.model(y))
broken()

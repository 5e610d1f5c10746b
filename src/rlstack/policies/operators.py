"""Which ONNX operators a policy's graph may have: those of ordinary networks.

There is no control flow, which could run forever, no text, no randomness, and nothing whose output's size depends on
values.
"""

from __future__ import annotations

_ELEMENTWISE = """Abs Acos Acosh Add Asin Asinh Atan Atanh Ceil Celu Clip Cos Cosh Div Dropout Elu Erf Exp Floor Gelu
HardSigmoid HardSwish Hardmax Identity LeakyRelu Log LogSoftmax Max Mean Min Mish Mod Mul Neg PRelu Pow Reciprocal Relu
Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu"""

_LOGICAL = "And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or Xor"

_SHAPES = """Cast CastLike Concat Constant ConstantOfShape DepthToSpace Expand EyeLike Flatten Gather
GatherElements GatherND OneHot Pad Range Reshape Resize ReverseSequence ScatterElements ScatterND Shape Size Slice
SpaceToDepth Split Squeeze Tile TopK Transpose Trilu Unsqueeze Upsample Where"""

_NETWORKS = """ArgMax ArgMin AveragePool BatchNormalization BitShift Conv ConvInteger ConvTranspose CumSum
DequantizeLinear DynamicQuantizeLinear Einsum GRU Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample
GroupNormalization InstanceNormalization LRN LSTM LayerNormalization LpNormalization LpPool MatMul MatMulInteger MaxPool
MeanVarianceNormalization QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN ReduceL1 ReduceL2 ReduceLogSum
ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"""

ELEMENTWISE = frozenset(_ELEMENTWISE.split())
"""Operators whose output has the type of the first input and the inputs' common shape."""

LOGICAL = frozenset(_LOGICAL.split())
"""The same, with truth values as outputs."""

ALLOWED = ELEMENTWISE | LOGICAL | frozenset(_SHAPES.split()) | frozenset(_NETWORKS.split())
"""All operators that a policy may have."""

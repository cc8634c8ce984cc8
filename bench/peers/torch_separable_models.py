"""Xception, NASNet-A mobile and MobileNet v2 of examples/models in PyTorch (torch_models.py)."""

import torch
import torch.nn.functional as F
from torch import nn

from torch_layers import (BlockNetwork, MeanHead, NormReluAfter, SameConv2d, batch_norm, conv, dense, f32, named,
                          same_padding)

# ---- Xception


class SameMaxPool2d(nn.Module):
    def forward(self, x):
        pads = [*same_padding(x.shape[3], 3, 2), *same_padding(x.shape[2], 3, 2)]
        return F.max_pool2d(F.pad(x, pads, value=float("-inf")), 3, 2)


def depthwise(name, channels, kernel, stride=1):
    return named(SameConv2d(channels, channels, kernel, stride, groups=channels, bias=False), name)


def separable(name, inputs, filters):
    return nn.Sequential(depthwise(name + "_depthwise", inputs, 3), conv(name + "_pointwise", inputs, filters, 1),
                         batch_norm(name + "_norm", filters, f32(0.9)))


class XceptionDown(nn.Module):
    def __init__(self, name, inputs, first, second, is_first):
        super().__init__()
        self.shortcut = nn.Sequential(conv(name + "/shortcut", inputs, second, 1, 2),
                                      batch_norm(name + "/shortcut_norm", second, f32(0.9)))
        self.is_first = is_first
        self.separable1 = separable(name + "/separable1", inputs, first)
        self.separable2 = separable(name + "/separable2", first, second)
        self.pool = SameMaxPool2d()

    def forward(self, x):
        y = F.relu(self.separable1(x if self.is_first else F.relu(x)))
        return self.pool(self.separable2(y)) + self.shortcut(x)


class XceptionMiddle(nn.Module):
    def __init__(self, name, channels):
        super().__init__()
        self.layers = nn.ModuleList(separable(f"{name}/separable{i}", channels, channels) for i in (1, 2, 3))

    def forward(self, x):
        y = x
        for layer in self.layers:
            y = layer(F.relu(y))
        return y + x


def xception(options):
    width = options.get("width") or 32

    def scaled(channels):
        return max(1, channels * width // 32)

    def stem(name, inputs, filters, stride):
        return NormReluAfter(conv(name, inputs, filters, 3, stride), batch_norm(name + "_norm", filters, f32(0.9)))

    blocks = [nn.Sequential(stem("block1/conv1", 3, scaled(32), 2), stem("block1/conv2", scaled(32), scaled(64), 1))]
    inputs = scaled(64)

    def down(first, second):
        nonlocal inputs
        blocks.append(XceptionDown(f"block{len(blocks) + 1}", inputs, scaled(first), scaled(second), len(blocks) == 1))
        inputs = scaled(second)

    for channels in (128, 256, 728):
        down(channels, channels)
    for _ in range(8):
        blocks.append(XceptionMiddle(f"block{len(blocks) + 1}", inputs))
    down(728, 1024)
    name = f"block{len(blocks) + 1}"
    blocks.append(nn.Sequential(separable(name + "/separable1", inputs, scaled(1536)), nn.ReLU(),
                                separable(name + "/separable2", scaled(1536), scaled(2048)), nn.ReLU(),
                                MeanHead(name + "/fc", scaled(2048), options.get("classes") or 1000)))
    return BlockNetwork(blocks)


# ---- NASNet-A mobile


class NasnetSeparable(nn.Module):
    """Twice depthwise and 1x1, each with a relu before it."""

    def __init__(self, name, inputs, filters, kernel, stride=1):
        super().__init__()
        channels = (inputs, filters)
        self.layers = nn.ModuleList(
            nn.Sequential(depthwise(f"{name}{i}_depthwise", channels[i - 1], kernel, stride if i == 1 else 1),
                          conv(f"{name}{i}_pointwise", channels[i - 1], filters, 1),
                          batch_norm(f"{name}{i}_norm", filters, f32(0.9))) for i in (1, 2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(F.relu(x))
        return x


class NasnetSqueeze(nn.Module):
    def __init__(self, name, inputs, filters):
        super().__init__()
        self.layers = nn.Sequential(conv(name, inputs, filters, 1), batch_norm(name + "_norm", filters, f32(0.9)))

    def forward(self, x):
        return self.layers(F.relu(x))


class NasnetHalved(nn.Module):
    """Every other pixel, and in the other half of the channels those one further down and right, with zeros behind."""

    def __init__(self, name, inputs, filters):
        super().__init__()
        self.even = conv(name + "/adjust_even", inputs, filters // 2, 1)
        self.odd = conv(name + "/adjust_odd", inputs, filters - filters // 2, 1)
        self.norm = batch_norm(name + "/adjust_norm", filters, f32(0.9))

    def forward(self, x):
        x = F.relu(x)
        shifted = F.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:]
        return self.norm(torch.cat([self.even(x[:, :, ::2, ::2]), self.odd(shifted[:, :, ::2, ::2])], 1))


def nasnet_mean(x):
    return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


class NasnetCell(nn.Module):
    def __init__(self, name, inputs, previous, filters):
        """`previous`: None in the first cell, else the channels before, and whether they are twice as large."""
        super().__init__()
        self.squeeze = NasnetSqueeze(name + "/squeeze", inputs, filters)
        self.adjust, self.adjusted = nn.Identity(), inputs
        if previous is not None:
            channels, is_larger = previous
            self.adjusted = filters
            if is_larger:
                self.adjust = NasnetHalved(name, channels, filters)
            elif channels != filters:
                self.adjust = NasnetSqueeze(name + "/adjust", channels, filters)

    def add(self, name, cell, inputs, filters, kernel, stride=1):
        setattr(self, name, NasnetSeparable(f"{cell}/{name}", inputs, filters, kernel, stride))


class NasnetNormal(NasnetCell):
    def __init__(self, name, inputs, previous, filters):
        super().__init__(name, inputs, previous, filters)
        for part, kernel in (("a_left", 5), ("a_right", 3), ("b_left", 5), ("b_right", 3), ("e_left", 3)):
            self.add(part, name, filters, filters, kernel)

    def forward(self, x, previous):
        p, h = self.adjust(previous), self.squeeze(x)
        return torch.cat([p, self.a_left(h) + self.a_right(p), self.b_left(p) + self.b_right(p), nasnet_mean(h) + p,
                          nasnet_mean(p) + nasnet_mean(p), self.e_left(h) + h], 1)


class NasnetReduction(NasnetCell):
    def __init__(self, name, inputs, previous, filters):
        super().__init__(name, inputs, previous, filters)
        self.add("a_left", name, filters, filters, 5, 2)
        self.add("a_right", name, self.adjusted, filters, 7, 2)
        self.add("b_right", name, self.adjusted, filters, 7, 2)
        self.add("c_right", name, self.adjusted, filters, 5, 2)
        self.add("e_left", name, filters, filters, 3)

    def forward(self, x, previous):
        p, h = self.adjust(previous), self.squeeze(x)
        padded = F.pad(h, (h.shape[3] % 2, 1, h.shape[2] % 2, 1))  # these zeros count
        largest, mean = F.max_pool2d(padded, 3, 2), F.avg_pool2d(padded, 3, 2)
        a, b = self.a_left(h) + self.a_right(p), largest + self.b_right(p)
        return torch.cat([b, mean + self.c_right(p), nasnet_mean(a) + b, self.e_left(a) + largest], 1)


class NasnetStep(nn.Module):
    """A cell between what has been made: (x, previous) -> (the cell's, x). The first is given an image, the last gives
    logits."""

    def __init__(self, cell, stem=None, head=None):
        super().__init__()
        self.cell, self.stem, self.head = cell, stem, head

    def forward(self, state):
        if self.stem is not None:
            x = self.stem(state)
            state = x, x
        x, previous = state
        y = self.cell(x, previous)
        return (y, x) if self.head is None else self.head(F.relu(y))


def nasnet_mobile(options):
    width, cells = options.get("width") or 44, 4
    channels = max(1, 32 * width // 44)
    stem = nn.Sequential(conv("stem", 3, channels, 3, 2), batch_norm("stem_norm", channels, f32(0.9)))
    plan = [("stem1", NasnetReduction, max(1, width // 4)), ("stem2", NasnetReduction, max(1, width // 2))]
    for stage in range(3):
        if stage > 0:
            plan.append((f"reduction{stage}", NasnetReduction, width << stage))
        plan += [(f"stage{stage + 1}_cell{cell}", NasnetNormal, width << stage) for cell in range(cells)]
    blocks, previous, is_larger = [], None, False
    for name, cell, filters in plan:
        before = None if previous is None else (previous, is_larger)
        blocks.append(NasnetStep(cell(name, channels, before, filters), stem if previous is None else None))
        previous, is_larger = channels, cell is NasnetReduction
        channels = (4 if is_larger else 6) * filters
    blocks[-1].head = MeanHead("fc", channels, options.get("classes") or 1000)
    return BlockNetwork(blocks)


# ---- MobileNet v2


class Relu6After(nn.Module):
    def __init__(self, convolution, norm):
        super().__init__()
        self.convolution, self.norm = convolution, norm

    def forward(self, x):
        return F.relu6(self.norm(self.convolution(x)))


# Expansion, channels at a stem of 32, number of blocks, stride of the first.
MOBILENET_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                    (6, 320, 1, 1))


def relu6_unit(name, variable, inputs, filters, kernel=1, stride=1, groups=1):
    convolution = nn.Conv2d(inputs, filters, kernel, stride, kernel // 2, groups=groups, bias=False)
    return Relu6After(named(convolution, name + variable), batch_norm(f"{name}{variable}_norm", filters, f32(0.9)))


class InvertedResidual(nn.Module):
    def __init__(self, name, inputs, expansion, filters, stride):
        super().__init__()
        hidden = expansion * inputs
        expand = [relu6_unit(name, "/expand", inputs, hidden)] if expansion != 1 else []
        self.layers = nn.Sequential(*expand, relu6_unit(name, "/depthwise", hidden, hidden, 3, stride, hidden),
                                    conv(name + "/project", hidden, filters, 1),
                                    batch_norm(name + "/project_norm", filters, f32(0.9)))
        self.is_residual = stride == 1 and inputs == filters

    def forward(self, x):
        return x + self.layers(x) if self.is_residual else self.layers(x)


def mobilenet_v2(options):
    width = options.get("width") or 32

    def scaled(channels):
        exact = channels * width  # in units of 1/32
        nearest = max(8, (exact + 128) // 256 * 8)
        return nearest + 8 if nearest * 320 < exact * 9 else nearest

    inputs, last, blocks = scaled(32), max(1280, scaled(1280)), []
    stem = relu6_unit("stem", "", 3, inputs, 3, 2)
    for expansion, channels, count, stride in MOBILENET_STAGES:
        for block in range(count):
            filters = scaled(channels)
            blocks.append(InvertedResidual(f"block{len(blocks)}", inputs, expansion, filters, stride if block == 0 else 1))
            inputs = filters
    blocks[0] = nn.Sequential(stem, blocks[0])
    blocks[-1] = nn.Sequential(blocks[-1], relu6_unit("head", "", inputs, last), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                               nn.Dropout(0.2), dense("fc", last, options.get("classes") or 1000))
    return BlockNetwork(blocks)

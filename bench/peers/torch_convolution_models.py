"""VGG and Inception v3 of examples/models in PyTorch (torch_models.py)."""

import torch
import torch.nn.functional as F
from torch import nn

from torch_layers import BlockNetwork, NormReluAfter, batch_norm, conv, dense, f32, named

# ---- VGG of 16 and 19 layers


class ReluAfter(nn.Module):
    def __init__(self, convolution):
        super().__init__()
        self.convolution = convolution

    def forward(self, x):
        return F.relu(self.convolution(x), inplace=True)


class FlatDense(nn.Module):
    """The first dense layer of an image: ours flattens [height, width, channels]."""

    def __init__(self, name, side, channels, units):
        super().__init__()
        self.fc = dense(name, side * side * channels, units)

    def forward(self, x):
        return self.fc(x.permute(0, 2, 3, 1).flatten(1))


VGG_CONVOLUTIONS = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def vgg(depth, with_norms, options):
    decay, dropout = f32(0.9), 0.5
    width, side = options.get("width") or 64, (options.get("image") or 224) // 32
    units, inputs, blocks = 4096 * width // 64, 3, []
    for stage, count in enumerate(VGG_CONVOLUTIONS[depth]):
        filters = width * min(1 << stage, 8)
        for number in range(1, count + 1):
            name = f"stage{stage + 1}_conv{number}"
            convolution = named(nn.Conv2d(inputs, filters, 3, 1, 1), name)
            layers = [NormReluAfter(convolution, batch_norm(name + "_norm", filters, decay)) if with_norms
                      else ReluAfter(convolution)]
            blocks.append(nn.Sequential(*layers, *([nn.MaxPool2d(2)] if number == count else [])))
            inputs = filters
    blocks.append(nn.Sequential(FlatDense("hidden1", side, inputs, units), nn.ReLU(), nn.Dropout(dropout),
                                dense("hidden2", units, units), nn.ReLU(), nn.Dropout(dropout),
                                dense("fc", units, options.get("classes") or 1000)))
    return BlockNetwork(blocks)


# ---- Inception v3


class Branches(nn.Module):
    """Networks beside each other, their channels one after another."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


class InceptionParts:
    """Branches of convolutions `(filters, kernel, stride, padding)` with batch norm and relu, and modules of them."""

    def __init__(self, width):
        self.width = width

    def scaled(self, channels):
        return max(1, channels * self.width // 32)

    def branch(self, name, inputs, *convolutions):
        units = []
        for number, (filters, *rest) in enumerate(convolutions, 1):
            kernel, stride, padding = [*rest, *(1, 1, 0)[len(rest):]]
            convolution = conv(f"{name}_{number}", inputs, self.scaled(filters), kernel, stride, padding)
            inputs = self.scaled(filters)
            units.append(NormReluAfter(convolution, batch_norm(f"{name}_{number}_norm", inputs, f32(0.9))))
        return nn.Sequential(*units)

    def pooled(self, name, inputs, filters):
        return nn.Sequential(nn.AvgPool2d(3, 1, 1), self.branch(name + "/pool", inputs, (filters,)))

    def module_a(self, name, inputs, pool_features):
        return Branches(self.branch(name + "/one", inputs, (64,)),
                        self.branch(name + "/five", inputs, (48,), (64, 5, 1, 2)),
                        self.branch(name + "/three", inputs, (64,), (96, 3, 1, 1), (96, 3, 1, 1)),
                        self.pooled(name, inputs, pool_features))

    def module_b(self, name, inputs):
        return Branches(self.branch(name + "/three", inputs, (384, 3, 2)),
                        self.branch(name + "/double", inputs, (64,), (96, 3, 1, 1), (96, 3, 2)),
                        nn.MaxPool2d(3, 2))

    def module_c(self, name, inputs, hidden):
        def row(filters):
            return filters, (1, 7), 1, (0, 3)

        def column(filters):
            return filters, (7, 1), 1, (3, 0)

        return Branches(self.branch(name + "/one", inputs, (192,)),
                        self.branch(name + "/seven", inputs, (hidden,), row(hidden), column(192)),
                        self.branch(name + "/double", inputs, (hidden,), column(hidden), row(hidden), column(hidden),
                                    row(192)),
                        self.pooled(name, inputs, 192))

    def module_d(self, name, inputs):
        return Branches(self.branch(name + "/three", inputs, (192,), (320, 3, 2)),
                        self.branch(name + "/seven", inputs, (192,), (192, (1, 7), 1, (0, 3)),
                                    (192, (7, 1), 1, (3, 0)), (192, 3, 2)),
                        nn.MaxPool2d(3, 2))

    def module_e(self, name, inputs):
        def row_and_column(branch, channels):
            return Branches(self.branch(f"{name}/{branch}_row", channels, (384, (1, 3), 1, (0, 1))),
                            self.branch(f"{name}/{branch}_column", channels, (384, (3, 1), 1, (1, 0))))

        three, double = self.scaled(384), self.scaled(384)
        return Branches(self.branch(name + "/one", inputs, (320,)),
                        nn.Sequential(self.branch(name + "/three", inputs, (384,)), row_and_column("three", three)),
                        nn.Sequential(self.branch(name + "/double", inputs, (448,), (384, 3, 1, 1)),
                                      row_and_column("double", double)),
                        self.pooled(name, inputs, 192))


def inception_v3(options):
    parts = InceptionParts(options.get("width") or 32)
    blocks = [nn.Sequential(parts.branch("stem_a/conv_a", 3, (32, 3, 2), (32, 3), (64, 3, 1, 1)), nn.MaxPool2d(3, 2)),
              nn.Sequential(parts.branch("stem_b/conv_b", parts.scaled(64), (80,), (192, 3)), nn.MaxPool2d(3, 2))]
    inputs = parts.scaled(192)
    for name, module, outputs, *arguments in (
            ("mixed_5b", parts.module_a, (64, 64, 96, 32), 32), ("mixed_5c", parts.module_a, (64, 64, 96, 64), 64),
            ("mixed_5d", parts.module_a, (64, 64, 96, 64), 64), ("mixed_6a", parts.module_b, (384, 96)),
            ("mixed_6b", parts.module_c, (192,) * 4, 128), ("mixed_6c", parts.module_c, (192,) * 4, 160),
            ("mixed_6d", parts.module_c, (192,) * 4, 160), ("mixed_6e", parts.module_c, (192,) * 4, 192),
            ("mixed_7a", parts.module_d, (320, 192)), ("mixed_7b", parts.module_e, (320, 384, 384, 384, 384, 192)),
            ("mixed_7c", parts.module_e, (320, 384, 384, 384, 384, 192))):
        blocks.append(module(name, inputs, *arguments))
        is_pooled = module in (parts.module_b, parts.module_d)
        inputs = sum(parts.scaled(channels) for channels in outputs) + (inputs if is_pooled else 0)
    blocks[-1] = nn.Sequential(blocks[-1], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5),
                               dense("mixed_7c/fc", inputs, options.get("classes") or 1000))
    return BlockNetwork(blocks)

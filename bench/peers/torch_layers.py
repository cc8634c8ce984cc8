"""What the networks of torch_models.py are made of: layers that carry the names of our variables, and blocks."""

import numpy
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn


def f32(number):
    """A number as SectionFlow holds it: 1 - f32(0.999) is 1.3e-5 less than 0.001."""
    return float(numpy.float32(number))


EPSILON = f32(1e-3)  # of batch norms, as in SectionFlow


def named(layer, name):
    layer.variable = name
    return layer


def same_padding(size, window, stride):
    """Before and after, for ceil(size / stride) outputs: the odd one after, as in TensorFlow and SectionFlow."""
    total = max((-(-size // stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


class SameConv2d(nn.Conv2d):
    """Zeros as same_padding says."""

    def forward(self, x):
        pads = [pad for axis in (1, 0)
                for pad in same_padding(x.shape[2 + axis], self.kernel_size[axis], self.stride[axis])]
        if pads[0] == pads[1] and pads[2] == pads[3]:
            return F.conv2d(x, self.weight, self.bias, self.stride, (pads[2], pads[0]), self.dilation, self.groups)
        return F.conv2d(F.pad(x, pads), self.weight, self.bias, self.stride, 0, self.dilation, self.groups)


def same_conv(name, inputs, filters, kernel, stride=1):
    return named(SameConv2d(inputs, filters, kernel, stride, bias=False), name)


def conv(name, inputs, filters, kernel, stride=1, padding=0):
    return named(nn.Conv2d(inputs, filters, kernel, stride, padding, bias=False), name)


def batch_norm(name, channels, decay):
    return named(nn.BatchNorm2d(channels, eps=EPSILON, momentum=1 - decay), name)


def dense(name, inputs, units):
    return named(nn.Linear(inputs, units), name)


def section_begins(num_sections, num_blocks):
    """Which blocks begin a section, as section_begins() of examples/models/section_cutter.h; 0: one a block."""
    sections = num_sections or num_blocks
    starts = {section * num_blocks // sections for section in range(sections)}
    return [block in starts for block in range(num_blocks)]


class BlockNetwork(nn.Module):
    """Blocks one after another; with `checkpoint` each group of blocks is computed again in the backward pass."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.groups = None

    def checkpoint(self, num_sections):
        self.groups = []
        for block, begins in zip(self.blocks, section_begins(num_sections, len(self.blocks))):
            if begins:
                self.groups.append([])
            self.groups[-1].append(block)

    def forward(self, x):
        if self.groups is None:
            for block in self.blocks:
                x = block(x)
            return x
        for group in self.groups[:-1]:
            x = torch.utils.checkpoint.checkpoint(nn.Sequential(*group), x, use_reentrant=False)
        # Nothing is gained by computing the last section twice.
        for block in self.groups[-1]:
            x = block(x)
        return x

    def loss(self, inputs, labels):
        logits = self(inputs)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


class MeanHead(nn.Module):
    """The mean over the image, then fully connected."""

    def __init__(self, name, inputs, classes):
        super().__init__()
        self.fc = dense(name, inputs, classes)

    def forward(self, x):
        return self.fc(x.mean((2, 3)))


class NormReluAfter(nn.Module):
    def __init__(self, convolution, norm):
        super().__init__()
        self.convolution, self.norm = convolution, norm

    def forward(self, x):
        return F.relu(self.norm(self.convolution(x)))

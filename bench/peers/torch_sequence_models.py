"""Sequence models of examples/models in PyTorch: encoders, a decoder like LLaMA, and recurrent language models."""

import torch
import torch.nn.functional as F
from torch import nn

from torch_layers import BlockNetwork, dense, f32, named


def layer_norm(name, width, epsilon):
    return named(nn.LayerNorm(width, eps=f32(epsilon)), name)


class Parameter(nn.Module):
    """A tensor that no layer of PyTorch has."""

    def __init__(self, name, *shape):
        super().__init__()
        self.variable = name
        self.weight = nn.Parameter(torch.zeros(shape))


class SelfAttention(nn.Module):
    def __init__(self, name, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = dense(name + "/qkv", width, 3 * width)
        self.output = dense(name + "/output", width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.output(y.transpose(1, 2).reshape(batch, length, width))


class EncoderBlock(nn.Module):
    """transformer_block of graph/transformer.h, without masks."""

    def __init__(self, name, width, heads, epsilon, norm_first):
        super().__init__()
        self.norm_first = norm_first
        self.norm1 = layer_norm(name + "/norm1", width, epsilon)
        self.attention = SelfAttention(name + "/attention", width, heads)
        self.norm2 = layer_norm(name + "/norm2", width, epsilon)
        self.hidden = dense(name + "/hidden", width, 4 * width)
        self.output = dense(name + "/output", 4 * width, width)

    def forward(self, x):
        if self.norm_first:
            x = x + self.attention(self.norm1(x))
            return x + self.output(F.gelu(self.hidden(self.norm2(x))))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.output(F.gelu(self.hidden(x))))


def encoder_blocks(layers, *arguments):
    return [EncoderBlock("block" + (f"_{layer}" if layer else ""), *arguments) for layer in range(layers)]


# ---- ViT


class VitPatches(nn.Module):
    def __init__(self, image, width, patch):
        super().__init__()
        self.patches = named(nn.Conv2d(3, width, patch, patch), "patches")
        self.token = Parameter("class_token", 1, width)
        self.positions = Parameter("positions", 1 + (image // patch)**2, width)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        return torch.cat([self.token.weight.expand(len(x), 1, -1), x], 1) + self.positions.weight


class VitHead(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.norm = layer_norm("final_norm", width, 1e-6)
        self.head = dense("head", width, classes)

    def forward(self, x):
        return self.head(self.norm(x[:, 0]))


def vit_small(options):
    layers, width, heads = options.get("layers") or 12, options.get("width") or 384, options.get("heads") or 6
    blocks = encoder_blocks(layers, width, heads, 1e-6, True)
    blocks[0] = nn.Sequential(VitPatches(options.get("image") or 224, width, 16), blocks[0])
    blocks[-1] = nn.Sequential(blocks[-1], VitHead(width, options.get("classes") or 1000))
    return BlockNetwork(blocks)


# ---- BERT, of texts that are no pairs


class BertEmbedding(nn.Module):
    def __init__(self, table, width, positions):
        super().__init__()
        self.table = table
        self.positions = named(nn.Embedding(positions, width), "positions")
        self.segments = named(nn.Embedding(2, width), "segments")
        self.norm = layer_norm("embedding_norm", width, 1e-12)

    def forward(self, tokens):
        return self.norm(self.table(tokens) + self.segments.weight[0] + self.positions.weight[:tokens.shape[1]])


class BertDecoder(nn.Module):
    """Its kernel is the table of the embedding."""

    def __init__(self, table, width, vocabulary):
        super().__init__()
        self.table = table
        self.transform = dense("transform", width, width)
        self.norm = layer_norm("transform_norm", width, 1e-12)
        self.bias = Parameter("decoder_bias", vocabulary)

    def forward(self, x):
        return F.linear(self.norm(F.gelu(self.transform(x))), self.table.weight, self.bias.weight)


def bert_base(options):
    layers, width, heads = options.get("layers") or 12, options.get("width") or 768, options.get("heads") or 12
    sequence, vocabulary = options.get("sequence") or 512, options.get("vocabulary") or 30522
    table = named(nn.Embedding(vocabulary, width), "token_table")
    blocks = encoder_blocks(layers, width, heads, 1e-12, False)
    blocks[0] = nn.Sequential(BertEmbedding(table, width, max(512, sequence)), blocks[0])
    blocks[-1] = nn.Sequential(blocks[-1], BertDecoder(table, width, vocabulary))
    return BlockNetwork(blocks)


# ---- LLaMA: RMSNorm is newer than Debian's PyTorch


def rms_norm(name, width):
    return named(nn.RMSNorm(width, eps=f32(1e-5)), name)


def bare(name, inputs, units):
    return named(nn.Linear(inputs, units, bias=False), name)


class RotaryAttention(nn.Module):
    """Number i and i + D / 2 of a head are a pair; heads of queries share keys and values."""

    def __init__(self, name, width, heads, key_value_heads, sequence):
        super().__init__()
        self.heads, self.key_value_heads, self.head_width = heads, key_value_heads, width // heads
        self.qkv = bare(name + "/qkv", width, (heads + 2 * key_value_heads) * self.head_width)
        self.output = bare(name + "/output", width, width)
        powers = torch.arange(0, self.head_width, 2, dtype=torch.float64) / self.head_width
        angles = torch.arange(sequence, dtype=torch.float64)[:, None] * 10000.0**-powers
        # In single precision on both sides.
        self.tables = angles.cos().float(), angles.sin().float()

    def turned(self, x):
        cosines, sines = (table.to(x.dtype) for table in self.tables)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cosines - b * sines, a * sines + b * cosines], -1)

    def forward(self, x):
        batch, length, width = x.shape
        shared = self.key_value_heads * self.head_width
        q, k, v = (part.view(batch, length, -1, self.head_width).transpose(1, 2)
                   for part in self.qkv(x).split([width, shared, shared], dim=2))
        k, v = (part.repeat_interleave(self.heads // self.key_value_heads, 1) for part in (self.turned(k), v))
        y = F.scaled_dot_product_attention(self.turned(q), k, v, is_causal=True)
        return self.output(y.transpose(1, 2).reshape(batch, length, width))


class LlamaBlock(nn.Module):
    def __init__(self, name, width, heads, key_value_heads, hidden, sequence):
        super().__init__()
        self.norm1 = rms_norm(name + "/norm1", width)
        self.attention = RotaryAttention(name + "/attention", width, heads, key_value_heads, sequence)
        self.norm2 = rms_norm(name + "/norm2", width)
        self.hidden = bare(name + "/hidden", width, 2 * hidden)
        self.output = bare(name + "/output", hidden, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        a, b = self.hidden(self.norm2(x)).chunk(2, -1)
        return x + self.output(a * F.silu(b))


def llama(options):
    layers, width, heads = options.get("layers") or 22, options.get("width") or 2048, options.get("heads") or 32
    sequence, vocabulary = options.get("sequence") or 2048, options.get("vocabulary") or 32000
    key_value_heads, hidden = heads // 8 if heads % 8 == 0 else 1, 5632 * width // 2048
    blocks = [LlamaBlock("block" + (f"_{layer}" if layer else ""), width, heads, key_value_heads, hidden, sequence)
              for layer in range(layers)]
    blocks[0] = nn.Sequential(named(nn.Embedding(vocabulary, width), "token_table"), blocks[0])
    blocks[-1] = nn.Sequential(blocks[-1], rms_norm("final_norm", width), Head("head", width, vocabulary))
    return BlockNetwork(blocks)


class Head(nn.Module):
    """A table that lies as that of an embedding does."""

    def __init__(self, name, width, vocabulary):
        super().__init__()
        self.table = Parameter(name, vocabulary, width)

    def forward(self, x):
        return F.linear(x, self.table.weight)


# ---- Recurrent language models


class RecurrentLm(nn.Module):
    """All steps of a layer in one call of PyTorch's."""

    def __init__(self, layer, options):
        super().__init__()
        width, vocabulary = options.get("width") or 650, options.get("vocabulary") or 10000
        self.table = named(nn.Embedding(vocabulary, width), "model/token_table")
        self.layers = nn.ModuleList(named(layer(width, width, batch_first=True), f"model/layer{index}")
                                    for index in range(options.get("layers") or 2))
        self.bias = Parameter("model/head_bias", vocabulary)
        for recurrent in self.layers:
            if isinstance(recurrent, nn.LSTM):  # ours has one bias, the sum of PyTorch's two
                nn.init.zeros_(recurrent.bias_hh_l0).requires_grad_(False)

    def forward(self, tokens):
        x = self.table(tokens)
        for recurrent in self.layers:
            x = recurrent(x)[0]
        return F.linear(x, self.table.weight, self.bias.weight)

    def loss(self, tokens, targets):
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())


MODELS = {
    "vit_small": vit_small,
    "bert_base": bert_base,
    "llama": llama,
    "lstm_lm": lambda options: RecurrentLm(nn.LSTM, options),
    "gru_lm": lambda options: RecurrentLm(nn.GRU, options),
}


def recurrent_variables(module):
    """By the ends of our names: the kernels, which are PyTorch's transposes, and the biases."""
    variables = {"input_kernel": module.weight_ih_l0, "state_kernel": module.weight_hh_l0}
    if isinstance(module, nn.LSTM):
        return {**variables, "bias": module.bias_ih_l0}
    return {**variables, "input_bias": module.bias_ih_l0, "state_bias": module.bias_hh_l0}

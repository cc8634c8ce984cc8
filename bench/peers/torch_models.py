"""The networks of examples/models in PyTorch: the same layers, sizes, paddings and constants.

Every layer with parameters carries the name that its variables have in SectionFlow (`variable`), so that weights can be
taken over and compared. `blocks` are the natural blocks of the C++ model: sections may end after each.
"""

import torch
import torch.nn.functional as F
from torch import nn

import torch_sequence_models
from torch_convolution_models import VGG_CONVOLUTIONS, inception_v3, vgg
from torch_layers import BlockNetwork, MeanHead, NormReluAfter, batch_norm, conv, dense, f32, named, same_conv
from torch_separable_models import mobilenet_v2, nasnet_mobile, xception


# ---- mnist_resnet


class PreActivationBlock(nn.Module):
    def __init__(self, name, inputs, filters, stride, decay):
        super().__init__()
        self.norm1 = batch_norm(name + "/norm1", inputs, decay)
        same = stride == 1 and inputs == filters
        self.shortcut = None if same else same_conv(name + "/shortcut", inputs, filters, 1, stride)
        self.conv1 = same_conv(name + "/conv1", inputs, filters, 3, stride)
        self.norm2 = batch_norm(name + "/norm2", filters, decay)
        self.conv2 = same_conv(name + "/conv2", filters, filters, 3)

    def forward(self, x):
        activated = F.relu(self.norm1(x))
        shortcut = x if self.shortcut is None else self.shortcut(activated)
        return shortcut + self.conv2(F.relu(self.norm2(self.conv1(activated))))


def mnist_resnet(options):
    decay = f32(0.999)
    stem = NormReluAfter(same_conv("stem", 1, 16, 3), batch_norm("stem_norm", 16, decay))
    blocks, inputs = [], 16
    for scale, (filters, count) in enumerate([(16, 3), (32, 3), (64, 5)]):
        for index in range(count):
            name = f"scale{scale}/block" + (f"_{index}" if index else "")
            stride = 2 if index == 0 and scale > 0 else 1
            blocks.append(PreActivationBlock(name, inputs, filters, stride, decay))
            inputs = filters
    blocks[0] = nn.Sequential(stem, blocks[0])
    blocks[-1] = nn.Sequential(blocks[-1], MeanHead("fc", 64, 10))
    return BlockNetwork(blocks)


# ---- ResNet of 18, 34, 50, 101 and 152 layers, strides as in version 1.5


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, name, inputs, width, stride, decay):
        super().__init__()
        self.conv1 = conv(name + "/conv1", inputs, width, 3, stride, 1)
        self.norm1 = batch_norm(name + "/norm1", width, decay)
        self.conv2 = conv(name + "/conv2", width, width, 3, 1, 1)
        self.norm2 = batch_norm(name + "/norm2", width, decay)
        self.shortcut = shortcut(name, inputs, width, stride, decay)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x), inplace=True)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, name, inputs, width, stride, decay):
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = conv(name + "/conv1", inputs, width, 1)
        self.norm1 = batch_norm(name + "/norm1", width, decay)
        self.conv2 = conv(name + "/conv2", width, width, 3, stride, 1)
        self.norm2 = batch_norm(name + "/norm2", width, decay)
        self.conv3 = conv(name + "/conv3", width, outputs, 1)
        self.norm3 = batch_norm(name + "/norm3", outputs, decay)
        self.shortcut = shortcut(name, inputs, outputs, stride, decay)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = F.relu(self.norm2(self.conv2(y)), inplace=True)
        return F.relu(self.norm3(self.conv3(y)) + self.shortcut(x), inplace=True)


def shortcut(name, inputs, outputs, stride, decay):
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(conv(name + "/shortcut_conv", inputs, outputs, 1, stride),
                         batch_norm(name + "/shortcut_norm", outputs, decay))


RESNETS = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
    101: (Bottleneck, (3, 4, 23, 3)),
    152: (Bottleneck, (3, 8, 36, 3)),
}


def resnet(depth, options):
    decay = f32(0.9)
    block_type, counts = RESNETS[depth]
    width = options.get("width") or 64
    stem = nn.Sequential(
        NormReluAfter(conv("stem/conv", 3, width, 7, 2, 3), batch_norm("stem/norm", width, decay)),
        nn.MaxPool2d(3, 2, 1))
    blocks, inputs = [], width
    for stage, count in enumerate(counts):
        for index in range(count):
            stride = 2 if index == 0 and stage > 0 else 1
            name = f"stage{stage + 1}_block{index}"
            blocks.append(block_type(name, inputs, width << stage, stride, decay))
            inputs = (width << stage) * block_type.expansion
    blocks[0] = nn.Sequential(stem, blocks[0])
    blocks[-1] = nn.Sequential(blocks[-1], MeanHead("head/fc", inputs, options.get("classes") or 1000))
    return BlockNetwork(blocks)


# ---- gpt


class Attention(nn.Module):
    def __init__(self, name, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = dense(name + "/qkv", width, 3 * width)
        self.projection = dense(name + "/attention_projection", width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        y = causal_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        return self.projection(y)


def causal_attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-2, -1) / q.shape[-1]**0.5
    hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v


class GptBlock(nn.Module):
    def __init__(self, name, width, heads):
        super().__init__()
        self.norm1 = named(nn.LayerNorm(width, eps=f32(1e-5)), name + "/norm1")
        self.attention = Attention(name, width, heads)
        self.norm2 = named(nn.LayerNorm(width, eps=f32(1e-5)), name + "/norm2")
        self.hidden = dense(name + "/hidden", width, 4 * width)
        self.projection = dense(name + "/hidden_projection", 4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.projection(F.gelu(self.hidden(self.norm2(x)), approximate="tanh"))


class GptEmbedding(nn.Module):
    def __init__(self, table, sequence, width):
        super().__init__()
        self.table = table
        self.positions = named(nn.Embedding(sequence, width), "positions")

    def forward(self, tokens):
        return self.table(tokens) + self.positions.weight


class GptHead(nn.Module):
    """Its kernel is the table of the embedding."""

    def __init__(self, table, width):
        super().__init__()
        self.table = table
        self.norm = named(nn.LayerNorm(width, eps=f32(1e-5)), "final_norm")

    def forward(self, x):
        return F.linear(self.norm(x), self.table.weight)


def gpt(options):
    layers, width, heads = options.get("layers") or 12, options.get("width") or 768, options.get("heads") or 12
    sequence, vocabulary = options.get("sequence") or 1024, options.get("vocabulary") or 50257
    table = named(nn.Embedding(vocabulary, width), "token_table")
    blocks = [GptBlock("block" + (f"_{layer}" if layer else ""), width, heads) for layer in range(layers)]
    blocks[0] = nn.Sequential(GptEmbedding(table, sequence, width), blocks[0])
    blocks[-1] = nn.Sequential(blocks[-1], GptHead(table, width))
    return BlockNetwork(blocks)


# ---- All of them


MODELS = {"mnist_resnet": mnist_resnet, "gpt": gpt, "inception_v3": inception_v3, "xception": xception,
          "nasnet_mobile": nasnet_mobile, "mobilenet_v2": mobilenet_v2, **torch_sequence_models.MODELS}
for depth in RESNETS:
    MODELS[f"resnet{depth}"] = lambda options, depth=depth: resnet(depth, options)
for depth in VGG_CONVOLUTIONS:
    MODELS[f"vgg{depth}"] = lambda options, depth=depth: vgg(depth, False, options)
    MODELS[f"vgg{depth}_bn"] = lambda options, depth=depth: vgg(depth, True, options)


def make_model(name, options):
    if name not in MODELS:
        raise SystemExit(f"'{name}' is no network here; try one of: {', '.join(MODELS)}")
    return MODELS[name](options)


# ---- Variables


def variables_of(model):
    """Our variables by name: (torch tensor, how to bring our array into its layout, and back)."""
    keep = (lambda a: a, lambda a: a)
    hwio = (lambda a: a.transpose(3, 2, 0, 1), lambda a: a.transpose(2, 3, 1, 0))
    swapped = (lambda a: a.transpose(1, 0), lambda a: a.transpose(1, 0))
    variables = {}
    for module in model.modules():
        name = getattr(module, "variable", None)
        if name is None:
            continue
        if isinstance(module, nn.Conv2d):
            variables[name + "/kernel"] = (module.weight, *hwio)
        elif isinstance(module, nn.Linear):
            variables[name + "/kernel"] = (module.weight, *swapped)
        elif isinstance(module, (nn.Embedding, torch_sequence_models.Parameter)):
            variables[name] = (module.weight, *keep)
        elif isinstance(module, (nn.LSTM, nn.GRU)):
            for end, tensor in torch_sequence_models.recurrent_variables(module).items():
                variables[f"{name}/{end}"] = (tensor, *(swapped if tensor.dim() == 2 else keep))
        elif isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
            variables[name + "/scale"] = (module.weight, *keep)
            variables[name + "/shift"] = (module.bias, *keep)
        elif type(module).__name__ == "RMSNorm":  # Debian's PyTorch has none
            variables[name + "/scale"] = (module.weight, *keep)
        if isinstance(module, nn.BatchNorm2d):
            variables[name + "/moving_mean"] = (module.running_mean, *keep)
            variables[name + "/moving_variance"] = (module.running_var, *keep)
        if isinstance(module, (nn.Conv2d, nn.Linear)) and module.bias is not None:
            variables[name + "/bias"] = (module.bias, *keep)
    return variables


def load_variables(model, arrays):
    """Takes our variables over. Every trained parameter of the network must be among them."""
    variables = variables_of(model)
    trained = {id(p) for p in model.parameters() if p.requires_grad}
    missing = trained - {id(tensor) for tensor, _, _ in variables.values()}
    assert not missing, f"{len(missing)} parameters of the network have no name"
    with torch.no_grad():
        for name, (tensor, ours_to_torch, _) in variables.items():
            array = torch.from_numpy(ours_to_torch(arrays[name]).copy())
            assert array.shape == tensor.shape, f"{name}: {tuple(array.shape)}, wanted {tuple(tensor.shape)}"
            tensor.copy_(array)


def read_variables(model):
    """The network's variables as arrays in our layout."""
    return {name: back(tensor.detach().numpy()).copy() for name, (tensor, _, back) in variables_of(model).items()}


# ---- Data


def torch_batches(arrays, layout):
    """The batches that bench_train_steps writes, images in PyTorch's order of dimensions."""
    batches = []
    while f"images/{len(batches)}" in arrays:
        inputs = torch.from_numpy(arrays[f"images/{len(batches)}"])
        labels = torch.from_numpy(arrays[f"labels/{len(batches)}"]).long()
        if inputs.dim() == 4:
            inputs = inputs.permute(0, 3, 1, 2)
            form = torch.channels_last if layout == "channels_last" else torch.contiguous_format
            inputs = inputs.contiguous(memory_format=form)
        elif inputs.dtype == torch.int32:
            inputs = inputs.long()
        batches.append((inputs, labels))
    return batches

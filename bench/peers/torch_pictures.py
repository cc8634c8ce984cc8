"""PyTorch's DataLoader as a worker of compare_pictures.py: each line `epoch` is answered by the time of one epoch.

    python3 bench/peers/torch_pictures.py --images FOLDER --decoder pil

Decoders: `pil` (torchvision's usual way: ImageFolder, Resize, ToTensor), `pil-draft` (PIL decodes a JPEG at a half, a
quarter or an eighth of its size where that is enough, and takes its quick way of resizing), `torchvision`
(torchvision.io.decode_jpeg and resizing of tensors), each with a plain linear resize where `-linear` is behind it.
"""

import argparse
import json
import sys
import time

import torch
import torchvision
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F


def pil_picture(side, draft):
    def load(path):
        with open(path, "rb") as file:
            picture = Image.open(file)
            if draft:
                picture.draft("RGB", (side, side))
            picture = picture.convert("RGB")
            return F.to_tensor(picture.resize((side, side), Image.BILINEAR, reducing_gap=2.0 if draft else None))
    return load


def tensor_picture(side, antialias):
    def load(path):
        data = torchvision.io.read_file(path)
        picture = torchvision.io.decode_jpeg(data, mode=torchvision.io.ImageReadMode.RGB)
        picture = F.resize(picture, [side, side], InterpolationMode.BILINEAR, antialias=antialias)
        return F.convert_image_dtype(picture, torch.float32)
    return load


DECODERS = {
    "pil": lambda side: pil_picture(side, draft=False),
    "pil-draft": lambda side: pil_picture(side, draft=True),
    "torchvision": lambda side: tensor_picture(side, antialias=True),
    "torchvision-linear": lambda side: tensor_picture(side, antialias=False),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", required=True, help="a folder of pictures, one folder a class")
    parser.add_argument("--decoder", choices=sorted(DECODERS), default="pil")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2, help="batches ahead of each worker")
    arguments = parser.parse_args()

    torch.set_num_threads(1)  # the workers' processes share the cores
    folder = torchvision.datasets.ImageFolder(arguments.images, loader=DECODERS[arguments.decoder](arguments.side))
    loader = torch.utils.data.DataLoader(folder, batch_size=arguments.batch, shuffle=True, num_workers=arguments.workers,
                                         persistent_workers=True, prefetch_factor=arguments.prefetch)
    print(json.dumps({"ready": True, "torch": torch.__version__, "torchvision": torchvision.__version__}), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        if line.strip() != "epoch":
            print(json.dumps({"error": f"'{line.strip()}' is no command; wanted epoch or quit"}), flush=True)
            continue
        begin = time.perf_counter()
        images = sum(len(labels) for _, labels in loader)
        print(json.dumps({"images": images, "seconds": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()

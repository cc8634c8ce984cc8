"""Delivers the same JPEG pictures by SectionFlow's pipeline and by PyTorch's DataLoader, an epoch each in turn.

    python3 bench/peers/compare_pictures.py --program build/bench/bench_pictures --python VENV/bin/python

The Python has PyTorch, torchvision and Pillow. All read the same files, decode them, bring them to 224 x 224 pixels of
f32 in [0, 1] and put 64 in a batch, with two workers. Without --images pictures of 500 x 375 pixels are made, of noise
that falls with frequency as it does in photographs, at quality 90: some 90 KB each. Ours decode at full size with
`full`, or at a part of it where that is enough with `scaled`, which is to be seen beside the decoders of PyTorch's
side that do the same (see torch_pictures.py). A ratio is that of images a second, ours to theirs, in the same round.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

from rounds import quartiles
from worker import Worker

HERE = os.path.dirname(os.path.abspath(__file__))
DECODERS = ["pil", "pil-draft", "torchvision", "torchvision-linear"]
MAKE_PICTURES = """
import os, sys
import numpy
from PIL import Image
folder, count = sys.argv[1], int(sys.argv[2])
random = numpy.random.default_rng(1)
height, width = 375, 500
frequency = numpy.hypot(numpy.fft.fftfreq(height)[:, None], numpy.fft.fftfreq(width)[None, :])
frequency[0, 0] = 1 / max(height, width)
for number in range(count):
    planes = []
    for _ in range(3):
        noise = numpy.fft.fft2(random.standard_normal((height, width))) / frequency
        plane = numpy.fft.ifft2(noise).real
        planes.append((plane - plane.mean()) / plane.std() * 50 + 128)
    luma = planes[0]
    levels = numpy.stack([luma + 0.3 * (plane - 128) for plane in planes], axis=-1)
    picture = Image.fromarray(numpy.clip(levels, 0, 255).astype(numpy.uint8))
    place = os.path.join(folder, f"class{number % 10}")
    os.makedirs(place, exist_ok=True)
    picture.save(os.path.join(place, f"{number}.jpg"), quality=90)
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench_pictures")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has PyTorch, torchvision and Pillow")
    parser.add_argument("--images", help="a folder of JPEG files, one folder a class; made if there is none")
    parser.add_argument("--count", type=int, default=1000, help="pictures that are made")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--decoder", action="append", choices=DECODERS, help="of PyTorch's side; all by itself")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warm-up", type=int, default=1, help="rounds before them")
    parser.add_argument("--json", help="write the results to this file too")
    return parser.parse_args()


def start_workers(arguments, images):
    sizes = ["--images", images, "--batch", str(arguments.batch), "--side", str(arguments.side)]
    ours = [arguments.program, *sizes, "--threads", str(arguments.workers)]
    workers = {"ours full": Worker([*ours, "--whole-decoding"]), "ours scaled": Worker(ours)}
    script = os.path.join(HERE, "torch_pictures.py")
    for decoder in arguments.decoder or DECODERS:
        command = [arguments.python, script, *sizes, "--workers", str(arguments.workers), "--decoder", decoder]
        workers[decoder] = Worker(command, {"OMP_NUM_THREADS": "1"})
    return workers


def measure(arguments, images):
    workers = start_workers(arguments, images)
    rates = {name: [] for name in workers}
    for round_ in range(arguments.warm_up + arguments.rounds):
        for name, worker in workers.items():
            answer = worker.ask("epoch")
            if round_ >= arguments.warm_up:
                rates[name].append(answer["images"] / answer["seconds"])
    versions = {name: worker.ready for name, worker in workers.items()}
    for worker in workers.values():
        worker.quit()
    return rates, versions


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        images = arguments.images
        if images is None:
            images = folder
            subprocess.run([arguments.python, "-c", MAKE_PICTURES, folder, str(arguments.count)], check=True)
        rates, versions = measure(arguments, images)
    report = {"versions": versions, "images_per_second": rates, "ratios": {}}
    print(f"{'':22}{'images/s':>10}{'full / it':>22}{'scaled / it':>22}")
    for name, samples in rates.items():
        text = f"{name:22}{statistics.median(samples):10.0f}"
        for ours in ("ours full", "ours scaled"):
            ratios = [a / b for a, b in zip(rates[ours], samples)]
            low, middle, high = quartiles(ratios)
            report["ratios"][f"{ours} / {name}"] = {"median": middle, "quartiles": [low, high]}
            text += f"{middle:10.2f} ({low:.2f}-{high:.2f})"
        print(text)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()

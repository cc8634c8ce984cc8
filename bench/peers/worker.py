"""A program that trains one step a command: bench_train_steps, or torch_peer.py under some Python."""

import json
import os
import subprocess


class Worker:
    def __init__(self, command, environment=None):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})
        self.ready = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self.command)} ended with status {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise SystemExit(f"{' '.join(self.command)}: {answer['error']}")
        return answer

    def ask(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read() says how it ended
        return self.read()

    def quit(self):
        if self.process.poll() is None:
            self.process.communicate("quit\n")


def model_options(pairs):
    """{"image": 64} from ["image=64"]."""
    return {name: int(value) for name, value in (pair.split("=", 1) for pair in pairs)}


def option_arguments(options):
    """The same as arguments of bench_train_steps."""
    return [argument for name, value in options.items() for argument in (f"--{name}", str(value))]

"""Event files of ddm-log, read by TensorBoard's own readers: every number of random logs, also of runs that went back to a checkpoint between two
exports, whose repeated steps must be there once."""
import glob
import json
import math
import os
import random
import struct
import subprocess
import tempfile

from peers import BUILD, SEED, case


def export(dir):
    subprocess.run([os.path.join(BUILD, "ddm-log"), "export", "--tensorboard", os.path.join(dir, "tb"), os.path.join(dir, "model")], check=True)


def write_log(path, lines):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def step_lines(rng, steps):
    return [{"step": s, "loss": rng.random(), **({"val_loss": rng.gauss(0, 1e9)} if rng.random() < .3 else {}), "part": {"a": s / 7},
             "seconds": (s - steps[0] + 1) * .5} for s in steps]


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def differs(dir, lines):
    """Compare the last value of each step and name; purge is what a reader does with steps that a later session repeats."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    got = EventAccumulator(dir, size_guidance={"scalars": 0}, purge_orphaned_data=True)
    got.Reload()
    want, time = {}, 0
    for line in lines:
        if "event" in line:
            time = line["time"]
            continue
        for name, value in (("loss", line["loss"]), ("val_loss", line.get("val_loss")), ("part/a", line["part"]["a"])):
            if value is not None:
                want.setdefault(name, []).append((line["step"], single(value), time + line["seconds"]))
    for name, values in want.items():
        read = [(e.step, e.value, e.wall_time) for e in got.Scalars(name)]
        if read != values:
            return "%s: %d values of %s, not %d: %s" % (dir, len(read), name, len(values), sorted(set(read) ^ set(values))[:4])
    extra = [name for name in got.Tags()["scalars"] if name not in want and got.Scalars(name)]
    return "%s: also %s" % (dir, extra) if extra else None


def scalars():
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as dir:
        log = os.path.join(dir, "model", "expert_0", "train.jsonl")
        lines, step = [], 0
        for attempt in range(1, 6):
            lines = [line for line in lines if line.get("step", 0) <= step]
            lines.append({"event": "start", "step": step, "steps": 1000, "attempt": attempt, "seconds_before": 0, "time": 1700000000 + 5000 * attempt,
                          "host": "node-%d" % attempt, "pid": 100 - attempt})
            end = step + 10 * rng.randrange(5, 20)
            for s in range(step + 10, end + 1, 10 * rng.randrange(1, 4)):
                lines += step_lines(rng, [s])
                if rng.random() < .4:
                    write_log(log, lines)
                    export(dir)
            write_log(log, lines)
            export(dir)
            wrong = differs(os.path.join(dir, "tb", "expert_0"), lines)
            if wrong:
                return "after attempt %d: %s" % (attempt, wrong)
            step += 10 * rng.randrange(0, (end - step) // 10 + 1)


def live():
    """A reader that is open while steps are added, as TensorBoard is."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as dir:
        log = os.path.join(dir, "model", "expert_0", "train.jsonl")
        lines = [{"event": "start", "step": 0, "steps": 100, "attempt": 1, "seconds_before": 0, "time": 5, "host": "h", "pid": 1}]
        reader, seen = None, []
        for s in range(1, 20):
            lines += step_lines(rng, [s])
            write_log(log, lines)
            export(dir)
            reader = reader or EventAccumulator(os.path.join(dir, "tb", "expert_0"), size_guidance={"scalars": 0})
            reader.Reload()
            seen.append(len(reader.Scalars("loss")))
        if seen != list(range(1, 20)):
            return "the reader saw %s steps" % seen


def framing():
    """The checksums, by the reader that verifies them."""
    from tensorboard.compat.proto import event_pb2
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New

    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as dir:
        lines = [{"event": "start", "step": 0, "steps": 100, "attempt": 1, "seconds_before": 0, "time": 5, "host": "h", "pid": 1}]
        lines += step_lines(rng, range(1, 300))
        lines[5]["loss"] = None
        write_log(os.path.join(dir, "model", "expert_0", "train.jsonl"), lines)
        export(dir)
        (path,) = glob.glob(os.path.join(dir, "tb", "expert_0", "*"))
        reader, events = PyRecordReader_New(path), []
        try:
            while True:
                reader.GetNext()
                events.append(event_pb2.Event.FromString(reader.record()))
        except Exception as end:
            if "OutOfRange" not in type(end).__name__:
                return repr(end)
        if len(events) != 301 or events[0].file_version != "brain.Event:2" or events[1].session_log.status != 1:
            return "%d records" % len(events)
        if not math.isnan(events[6].summary.value[0].simple_value):
            return "a loss that is not finite became %r" % events[6].summary.value[0].simple_value


with open(os.path.join(BUILD, "config.h")) as f:
    there = "HAVE_PROTOBUF 1" in f.read()
for name, fn in (("numbers and times of a run that went back four times", scalars), ("a reader that is open meanwhile", live),
                 ("records, by the reader that checks them", framing)):
    if there:
        case("TensorBoard: " + name, ("tensorboard",), fn)
    else:
        print("ok - TensorBoard: %s # SKIP no protobuf-c in this build" % name)

"""The needs of a job of `sbatch` or `srun`: slots, memory, resources and features."""

from lbd.slurm.options import SlurmError, listed
from lbd.slurm.times import limit_s, memory_text
from lbd.text.index_list import is_number
from lbd.text.needs import is_name


def tasks_of(values: dict[str, str]) -> int:
    """Returns the number of processes that the script starts itself. Raises SlurmError."""
    counts = {
        number_of(values, option, 1)
        for option in ("ntasks", "ntasks-per-node", "tasks-per-node")
        if option in values
    }
    if len(counts) > 1:
        raise SlurmError("--ntasks and --ntasks-per-node differ, and a job is on one host")
    return counts.pop() if counts else 1


def number_of(values: dict[str, str], option: str, otherwise: int) -> int:
    text = values.get(option, str(otherwise))
    if not (is_number(text) and int(text)):
        raise SlurmError(f"Invalid numeric value {text!r} for --{option}")
    return int(text)


def memory_of(values: dict[str, str], cpus: int) -> str:
    if "mem-per-cpu" in values:
        return memory_text("mem-per-cpu", values["mem-per-cpu"], cpus)
    return memory_text("mem", values["mem"]) if "mem" in values else ""


def need_words(values: dict[str, str]) -> list[str]:
    """Returns the job's needs as options of lbrun. Raises SlurmError."""
    amounts: dict[str, str] = {}
    for one in listed(values.get("gres", "").removeprefix("none")):
        name, colon, count = one.removeprefix("gres/").partition(":")
        add_amount(amounts, f"--gres {one}", name, count if colon else "1")
    for option in ("gpus", "gpus-per-node"):  # a job has one node
        if option in values:
            add_amount(amounts, f"--{option} {values[option]}", "gpu", values[option])
    words = [word for name, count in amounts.items() for word in ("--need", f"{name}={count}")]
    for feature in features_of(values.get("constraint", "")):
        words += ["--feature", feature]
    return words


def limit_words(values: dict[str, str], cpus: int) -> list[str]:
    """Returns the job's limits and needs as options of lbrun. Raises SlurmError."""
    words: list[str] = []
    if "time" in values and (limit := limit_s(values["time"])):
        words += ["--timeout", str(limit)]
    if memory := memory_of(values, cpus):
        words += ["--mem", memory]
    return words + need_words(values)


def add_amount(amounts: dict[str, str], given: str, name: str, count: str) -> None:
    """Raises SlurmError."""
    if not (is_name(name) and is_number(count) and int(count)):
        raise SlurmError(f"{given} is not supported by lbd: give a name and a count, as gpu:2")
    if amounts.setdefault(name, count) != count:
        raise SlurmError(f"{given}: {amounts[name]} of {name} are asked for as well")


def features_of(constraint: str) -> list[str]:
    """Raises SlurmError."""
    features = constraint.split("&") if constraint else []
    if not all(map(is_name, features)):
        raise SlurmError(
            f"--constraint {constraint} is not supported by lbd: give a feature, or several with &"
        )
    return features

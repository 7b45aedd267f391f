"""Writes the wheel of moetune, with nothing but Python's own library.

    pip install ./db/lookup/python          # the Python packages alone: pip calls build_wheel()
    build_wheel.py ROOT FOLDER [NAME NEEDED...]  # with what `make install` put into ROOT: make wheel

A wheel is an archive and a list of what is in it (packaging.python.org, "Binary distribution format").
"""

import base64
import csv
import glob
import hashlib
import io
import os
import re
import subprocess
import sys
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ("moelookup", "moetune")
METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: Which plan of a Mixture-of-Experts layer is fastest for this step's expert capacity?
Author: The moetune authors
License: MIT
Keywords: mixture of experts,autotuning,distributed training
Classifier: License :: OSI Approved :: MIT License
Classifier: Operating System :: POSIX :: Linux
Requires-Python: >=3.8
{needs}Description-Content-Type: text/markdown

{readme}"""
# What every Linux of that glibc has: PEP 600.
SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread)|ld-linux[-\w]*)\.so\.\d+")


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def version():
    return re.search(r'__version__ = "(.*)"', read(HERE, "moelookup", "__init__.py").decode())[1]


class Wheel:
    """Files are added, then close() adds what describes them."""

    def __init__(self, folder, tag, name="moetune", needs=()):
        self.tag, self.distribution, self.needs = tag, name, needs
        self.stem = f"{name.replace('-', '_')}-{version()}"
        self.info = f"{self.stem}.dist-info"
        self.name = f"{self.stem}-{tag}.whl"
        self.record = []
        self.zip = zipfile.ZipFile(os.path.join(folder, self.name), "w", zipfile.ZIP_DEFLATED)
        # The same files give the same bytes; an archive knows no time before 1980.
        self.date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]

    def add(self, name, data, executable=False):
        entry = zipfile.ZipInfo(name, self.date)
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        self.zip.writestr(entry, data, zipfile.ZIP_DEFLATED)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append((name, f"sha256={digest}", len(data)))

    def close(self):
        readme = read(HERE, "README.md").decode()
        needs = "".join(f"Requires-Dist: {one}\n" for one in self.needs)
        metadata = METADATA.format(
            name=self.distribution, version=version(), needs=needs, readme=readme
        )
        self.add(f"{self.info}/METADATA", metadata.encode())
        pure = str(self.tag.endswith("any")).lower()
        lines = f"Wheel-Version: 1.0\nGenerator: moetune\nRoot-Is-Purelib: {pure}\nTag: {self.tag}\n"
        self.add(f"{self.info}/WHEEL", lines.encode())
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows(self.record + [(f"{self.info}/RECORD", "", "")])
        self.add(f"{self.info}/RECORD", text.getvalue().encode())
        self.zip.close()
        return self.name


def add_packages(wheel):
    for package in PACKAGES:
        for file in [os.path.join(HERE, package, "py.typed")] + sorted(
            glob.glob(os.path.join(HERE, package, "*.py"))
        ):
            wheel.add(os.path.relpath(file, HERE), read(file))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheel = Wheel(wheel_directory, "py3-none-any")
    add_packages(wheel)
    return wheel.close()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    wheel = Wheel(wheel_directory, "py3-none-any")
    wheel.add("moetune.pth", (HERE + "\n").encode())
    return wheel.close()


# ---- with the program and the libraries


def files_in(root):
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), root)


def objdump(option, path):
    return subprocess.run(
        ["objdump", option, path], check=True, stdout=subprocess.PIPE, universal_newlines=True
    ).stdout


def platform_of(root):
    """manylinux_2_X_MACHINE: the glibc whose symbols are needed, looked up, not assumed."""
    files = [f for f in files_in(root) if read(root, f)[:4] == b"\x7fELF"]
    names, newest = {os.path.basename(f) for f in files}, (0, 0)
    for file in files:
        path = os.path.join(root, file)
        for wanted in re.findall(r"NEEDED +(\S+)", objdump("-p", path)):
            if wanted not in names and not SYSTEM.fullmatch(wanted):
                sys.exit(f"wheel: {file} wants {wanted}, which other machines may not have")
        found = re.findall(r"\bGLIBC_(\d+)\.(\d+)", objdump("-T", path))
        newest = max([newest] + [(int(a), int(b)) for a, b in found])
    if newest == (0, 0):
        sys.exit(f"wheel: nothing in {root} wants glibc, but a manylinux wheel is for glibc")
    return f"manylinux_{newest[0]}_{newest[1]}_{os.uname().machine}"


def build_whole(root, folder, *described):
    """bin/ goes where programs go, everything else where it would lie under a prefix."""
    wheel = Wheel(folder, f"py3-none-{platform_of(root)}", described[0], described[1:])
    add_packages(wheel)
    for file in files_in(root):
        path = os.path.join(root, file)
        place = f"scripts/{file[4:]}" if file.startswith("bin/") else f"data/{file}"
        wheel.add(f"{wheel.stem}.data/{place}", read(path), os.access(path, os.X_OK))
    return wheel.close()


if __name__ == "__main__":
    print(os.path.join(sys.argv[2], build_whole(*sys.argv[1:])))

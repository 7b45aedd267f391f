"""Writes moelookup/_declared.py: what moelookup.h and moetune.h declare, as Python needs it.

    declare.py >moelookup/_declared.py      # tests/program/test_python fails when this is needed

Users of the package need neither these headers nor a compiler.
"""

import os
import re
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
HEADERS = ("../moelookup.h", "../../../tuner/live/moetune.h")
HEAD = '''\
"""What moelookup.h and moetune.h declare: declare.py has written it, from these headers."""

import enum
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Dict, List, Tuple
'''
STRUCTS = (
    "moe_shape moe_plan moe_capacities_options moe_capacities_state moe_counts_options"
    " moe_routes_options moetune_options moetune_status"
).split()


def read_header(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def python_type(declared):
    """The type of "const struct moe_shape *shape", without the name, in ctypes."""
    kind, stars = re.sub(r"\b(const|struct|enum)\b", "", declared), declared.count("*")
    name = re.match(r"\s*(\w+)", kind)[1]
    stars += "[" in declared
    if stars and name == "char" or stars and name == "uint8_t":
        return "c_char_p"
    if stars and (name == "void" or "struct" in declared):
        stars, python = stars - 1, "c_void_p"  # an address; bytes and buffers will do, too
    elif name == "void":
        return "None"
    else:
        python = "c_" + name[: -len("_t")] if name.endswith("_t") else f"c_{name}"
        python = "c_size_t" if name == "size_t" else python
    return "POINTER(" * stars + python + ")" * stars


def enums(text):
    """For each enum its name and its members: name, value, comment."""
    for name, body in re.findall(r"enum (\w+) \{(.*?)\};", text, re.S):
        members = re.findall(r"(\w+)\s*=\s*(-?\d+)\s*,?\s*(?:/\*(.*?)\*/)?", body, re.S)
        named = [one for one in without_comments(body).split(",") if one.strip()]
        assert len(members) == len(named), f"enum {name}: each member wants its value"
        yield name, [(member, int(value), comment) for member, value, comment in members]


def write_words(text):
    """Writes a tuple of words for each enum: its members' names without their common prefix."""
    for name, members in enums(text):
        if name in ("moe_status", "moe_source"):
            continue
        prefix = os.path.commonprefix([member for member, _, _ in members]).rpartition("_")[0] + "_"
        assert [value for _, value, _ in members] == list(range(len(members)))
        words = ", ".join(f'"{member[len(prefix):].lower()}"' for member, _, _ in members)
        print(f"{name} = ({words})")


def write_source(text):
    print('\n\nclass Source(enum.IntEnum):\n    """Why a plan is the answer."""\n\n    __module__ = "moelookup"\n')
    for member, value, comment in dict(enums(text))["moe_source"]:
        comment = re.sub(r"\s*\n\s*\*?\s*", " ", comment).strip()
        for line in textwrap.wrap(comment, 94):
            print(f"    # {line}")
        print(f"    {member[len('MOE_'):]} = {value}")


def write_structs(text):
    for name in STRUCTS:
        body = re.search(r"struct %s \{(.*?)\n\};" % name, text, re.S)[1]
        print(f"\n\nclass {name}(Structure):\n    _fields_ = [")
        line = "       "
        for field in filter(str.strip, without_comments(body).split(";")):
            assert "[" not in field, f"struct {name}: no type in Python for {field.strip()}"
            callback = re.search(r"[(][*](.*?)[)]", field)
            names = callback or re.search(r"([*\w]+(?:\s*,\s*[*\w]+)*)\s*$", field)
            for one in names[1].split(","):
                pair = f' ("{one.strip(" *")}", {"c_void_p" if callback else python_type(field)}),'
                if len(line + pair) > 100:
                    print(line)
                    line = "       "
                line += pair
        print(f"{line}\n    ]")


def write_functions(text, library):
    macro = library.upper() + "_API"
    print(f"\n\n{library}_functions: Dict[str, Tuple[Any, List[Any]]] = {{")
    pattern = macro + r" ([^;{]*?)(\w+)\(([^;]*)\);"
    for result, name, arguments in re.findall(pattern, without_comments(text), re.S):
        types = [] if arguments == "void" else list(map(python_type, arguments.split(",")))
        print(f'    "{name}": ({python_type(result)}, [{", ".join(types)}]),')
    print("}")


def main():
    lookup, tune = map(read_header, HEADERS)
    print(HEAD)
    print("# Words of texts, by the value of an enum.")
    write_words(lookup)
    write_source(lookup)
    write_structs(lookup + tune)
    write_functions(lookup, "moelookup")
    write_functions(tune, "moetune")


if __name__ == "__main__":
    main()

"""An agent that edits files in one folder: it reads a file, and replaces a passage after your approval.

A path that leads out of the folder is refused, whether by `..` or by a link. A passage that is not in the file exactly
once is refused too, with a message from which the model can correct its call.
"""

from __future__ import annotations

import difflib
import tempfile
from pathlib import Path

from engine_option import engine_of, options

from ferrule import FunctionTool, ToolCall, ToolError, tool

# SmolLM2, which the other examples use, edits no files. This model is downloaded once (490 MB).
ENGINE = "hf:Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
GREETING = 'def greet(name):\n    return "Hello, " + name\n'


def path_in(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ToolError(f"{name!r} is outside of the folder")
    if not path.is_file():
        known = ", ".join(sorted(one.name for one in folder.iterdir()))
        raise ToolError(f"there is no file {name!r}; there are: {known}")
    return path


def edited(text: str, old: str, new: str) -> str:
    if text.count(old) != 1 or not old:
        raise ToolError(f"`old` occurs {text.count(old)} times in the file; quote a passage that occurs once")
    return text.replace(old, new)


def tools_of(folder: Path) -> list[FunctionTool[..., str]]:
    @tool
    def read_file(path: str) -> str:
        """Reads a file of the folder."""
        file = path_in(folder, path)
        print(f"reading {file.name}")
        return file.read_text(encoding="utf-8")

    @tool(side_effects=True)
    def replace_text(path: str, old: str, new: str) -> str:
        """Replaces a passage of a file, which must occur in it once."""
        file = path_in(folder, path)
        file.write_text(edited(file.read_text(encoding="utf-8"), old, new), encoding="utf-8")
        return f"{path} is changed"

    return [read_file, replace_text]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--folder", type=Path, help="the folder (default: a temporary one with greet.py)")
    parser.add_argument("--task", default='In greet.py, replace "Hello, " by "Good morning, ".')
    parser.add_argument("--yes", action="store_true", help="approve without asking")
    parser.set_defaults(engine=ENGINE)
    args = parser.parse_args()
    folder: Path = args.folder or Path(tempfile.mkdtemp())
    if args.folder is None:
        (folder / "greet.py").write_text(GREETING, encoding="utf-8")

    def approve(call: ToolCall) -> bool:
        path, old, new = (str(call.arguments[name]) for name in ("path", "old", "new"))
        # repr shows what is invisible.
        print("\n".join(difflib.ndiff([ascii(old)], [ascii(new)])))
        try:
            return args.yes or input(f"change {path!a}? [y/n] ").strip().lower() == "y"
        except EOFError:
            return False

    # The files are in the prompt, so that a small model need not read them first. With many files, leave that to it.
    shown = "\n\n".join(f"{file.name}:\n{file.read_text(encoding='utf-8')}" for file in sorted(folder.iterdir()))
    print(f"you: {args.task}")
    with engine_of(args) as engine:
        engine.run_sync(
            f"{shown}\n{args.task}",
            tools=tools_of(folder),
            tool_choice_policy="required_first_hop",
            parallel_tool_calls=False,
            decide=approve,
            max_iterations=1,
            max_tokens=200,
            temperature=0.0,
        )
    for file in sorted(folder.iterdir()):
        print(f"\n{file.name}:\n{file.read_text(encoding='utf-8')}")


if __name__ == "__main__":
    main()

"""`plan LAYER`: what a layer's forward and backward pass cost on a device, before anything runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from refkit.planner.devices import DEFAULT_DEVICE, DEVICES, FORMATS
from refkit.planner.sheet import Parameter, Sheet
from refkit.planner.sheets import sheets
from refkit.verify.cli import CommandError, options

HELP = "FLOPs, traffic, tiles, waves, split-K, memory and time of a layer's forward and backward pass"

SHORT_FORMATS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8"}


def configure(parser: argparse.ArgumentParser) -> None:
    """A layer with its sizes, `devices`, or `page FILE`."""
    layers = parser.add_subparsers(dest="layer", metavar="LAYER", required=True)
    for sheet in sheets().values():
        layer = _add(layers, sheet.operator, sheet.about)
        for each in sheet.parameters:
            _add_size(layer, each)
        _add_machine(layer)
        layer.add_argument(
            "--formulas", action="store_true", help="the formula of every number, by name and in numbers"
        )
        options.add_json(layer)
        layer.set_defaults(plan=_plan_layer, sheet=sheet)
    devices = _add(layers, "devices", "the devices that --device knows, and where their figures come from")
    devices.set_defaults(plan=_list_devices)
    page = _add(layers, "page", "write the planner as an interactive page, one HTML file that needs no network")
    page.add_argument("file", type=Path, metavar="FILE", help="the file to write, such as planner.html")
    page.set_defaults(plan=_write_page)


def run(arguments: argparse.Namespace) -> int:
    """Whichever of the three was asked for; 0."""
    arguments.plan(arguments)
    return 0


def _add(layers: argparse._SubParsersAction, name: str, about: str) -> argparse.ArgumentParser:
    layer: argparse.ArgumentParser = layers.add_parser(name, help=about, description=about)
    layer.add_argument(
        "--traceback", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
    )
    layer.set_defaults(parser=layer)
    return layer


def _add_size(parser: argparse.ArgumentParser, each: Parameter) -> None:
    option = f"-{each.name}" if len(each.name) == 1 else f"--{each.name.replace('_', '-')}"
    if each.unit == "flag":
        parser.add_argument(option, dest=each.name, action="store_const", const=1, default=0, help=each.label)
        return
    default = each.default if each.tuning else None
    needed = not each.tuning and each.lowest == 1
    shown = f" (default {default})" if default is not None else "" if needed else " (may be left out)"
    parser.add_argument(
        option, dest=each.name, type=_whole, metavar="N", default=default, required=needed, help=each.label + shown
    )


def _add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dtype",
        choices=(*FORMATS, *SHORT_FORMATS),
        default="bfloat16",
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}, or {', '.join(SHORT_FORMATS)} (default bfloat16)",
    )
    parser.add_argument(
        "--device",
        type=str.lower,
        choices=tuple(DEVICES),
        default=DEFAULT_DEVICE,
        metavar="NAME",
        help=f"see `plan devices` (default {DEFAULT_DEVICE})",
    )
    parser.add_argument(
        "--tflops", type=_positive, metavar="X", help="10^12 operations per second, instead of the device's"
    )
    parser.add_argument(
        "--bandwidth", type=_positive, metavar="X", help="10^9 bytes per second, instead of the device's"
    )
    parser.add_argument("--sms", type=_whole, metavar="N", help="multiprocessors, instead of the device's")


def _plan_layer(arguments: argparse.Namespace) -> None:
    from refkit import __version__
    from refkit.planner.plan import plan
    from refkit.verify.cli import plan_table

    options.check_outputs(arguments)
    sheet: Sheet = arguments.sheet
    sizes = {each.name: getattr(arguments, each.name) for each in sheet.parameters}
    try:
        made = plan(
            sheet.operator,
            {name: size for name, size in sizes.items() if size is not None},
            dtype=SHORT_FORMATS.get(arguments.dtype, arguments.dtype),
            on=arguments.device,
            tflops=arguments.tflops,
            bandwidth=arguments.bandwidth,
            multiprocessors=arguments.sms,
        )
    except ValueError as error:
        raise CommandError(f"plan {error}") from None
    plan_table.print_plan(made, formulas=arguments.formulas)
    if arguments.json is not None:
        options.write_json(arguments.json, {"schema": 1, "refkit": __version__, **made.to_json()})


def _list_devices(arguments: argparse.Namespace) -> None:
    from refkit.verify.cli import plan_table

    plan_table.print_devices()


def _write_page(arguments: argparse.Namespace) -> None:
    from refkit.reports.planner_page import planner_page
    from refkit.verify.store import write_atomically

    path: Path = arguments.file
    if path.is_dir():
        raise CommandError(f"plan page {path}: this is a folder; expected a file")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"plan page {path}: there is no folder {path.absolute().parent}")
    write_atomically(path.absolute(), planner_page())
    print(f"{path}: open it in a browser")


def _whole(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{options.shortened(text)!r} is not a whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is negative; expected a whole number")
    return value


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{options.shortened(text)!r} is not a number") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{options.shortened(text)}; expected a positive number")
    return value

"""Options that set settings, generated from the declarations of the settings."""

from __future__ import annotations

import argparse
from typing import Any

from fullgraph.cli.options import Parser
from fullgraph.session.setting_kinds import FlagKind
from fullgraph.session.settings import Command, list_declarations

_SETTING = "setting:"
"""Prefix of the attributes in which the parsed command line stores values of settings."""


def add_settings(parser: Parser, command: Command) -> None:
    """Add the options of ``command`` that set a setting, from the declarations of the settings."""
    group = parser.add_argument_group(
        "settings", "These options override [tool.fullgraph] in pyproject.toml."
    )
    for declaration in list_declarations():
        option = declaration.option
        if option is None or command not in option.commands:
            continue
        dest = _SETTING + declaration.name
        help = declaration.option_help().replace("%", "%%")
        text = argparse.SUPPRESS if option.hidden else help
        names = sorted((f"--{declaration.option_name}", *option.also), key=len)
        if isinstance(declaration.kind, FlagKind):
            group.add_argument(
                *names, dest=dest, action=argparse.BooleanOptionalAction, default=None, help=text
            )
        else:
            metavar = declaration.kind.metavar
            group.add_argument(*names, dest=dest, action="append", metavar=metavar, help=text)


def given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the settings on the command line, by the name of the setting."""
    given: dict[str, Any] = {}
    for declaration in list_declarations():
        value = getattr(options, _SETTING + declaration.name, None)
        if isinstance(value, list):
            value = declaration.kind.from_arguments(value)
        if value is not None:
            given[declaration.name] = value
    return given


def option_of(setting: str) -> str:
    """Return the option that sets a setting, such as ``--allow`` for ``sandbox-allow``."""
    return next(
        f"--{declaration.option_name}"
        for declaration in list_declarations()
        if declaration.name == setting
    )

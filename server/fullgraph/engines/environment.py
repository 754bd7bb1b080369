"""Select the environment variables that can affect the results of a program."""

from __future__ import annotations

from collections.abc import Mapping

_PASSING = frozenset(
    {
        *("_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "TERM", "TERMCAP", "COLORTERM"),
        *("WINDOWID", "WINDOW", "DISPLAY", "XAUTHORITY", "STY", "TMUX", "TMUX_PANE", "GPG_TTY"),
        *("PS1", "PS2", "PROMPT", "PROMPT_COMMAND", "HISTFILE", "LS_COLORS", "PAGER", "EDITOR"),
        *("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "LESSOPEN", "LESSCLOSE", "INVOCATION_ID"),
        *("JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "VIRTUAL_ENV_PROMPT", "CONDA_PROMPT_MODIFIER"),
        *("GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH", "PYTEST_CURRENT_TEST"),
        *("MAKEFLAGS", "MAKELEVEL", "MAKE_TERMOUT", "MAKE_TERMERR", "MFLAGS"),
        *("NVIM", "NVIM_LOG_FILE", "VIM", "VIMRUNTIME", "MYVIMRC", "INSIDE_EMACS"),
        "FULLGRAPH_ENGINE_KEEP",
    }
)
_PASSING_BEGIN = (
    *("SSH_", "TERM_", "VTE_", "KITTY_", "ITERM_", "WEZTERM_", "ALACRITTY_", "KONSOLE_", "GNOME_"),
    *("WT_", "VSCODE_", "LC_TERMINAL", "XDG_SESSION", "DBUS_", "DIRENV_", "STARSHIP_", "GIT_"),
)


def stable_variables(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the environment variables as sorted (name, value) pairs, without variables that only
    describe the terminal.
    """
    return sorted(
        item
        for item in environment.items()
        if item[0] not in _PASSING and not item[0].startswith(_PASSING_BEGIN)
    )

"""Formulas of LaTeX, as the docstrings of torch have them, in one line of plain characters."""

# ruff: noqa: RUF001

from __future__ import annotations

import re

_WORDS = re.compile(
    r"\\(?:text|textbf|textit|texttt|mathrm|mathbf|mathit|mathcal|mathbin|operatorname)\b\s*"
)
_DROPPED = re.compile(r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|limits|bf|rm)(?![A-Za-z])\.?")
_SPACE = re.compile(r"\\(?:q?quad\b|[,;:! ])|~")
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[^\\]", re.S)
_SIMPLE = re.compile(r"[\w.∞αβγδεθλμνπρστφωΓΔΘΛΣΦΩ]*|\w+\([^()]*\)")
_ALONE = re.compile(r"-?\w*|[^\w\s]|\([^()]*\)")

_SYMBOLS = {
    "times": "×",
    "cdot": "·",
    "ast": "*",
    "leq": "≤",
    "le": "≤",
    "geq": "≥",
    "ge": "≥",
    "lt": "<",
    "gt": ">",
    "ll": "≪",
    "gg": "≫",
    "neq": "≠",
    "ne": "≠",
    "approx": "≈",
    "equiv": "≡",
    "sim": "~",
    "in": "∈",
    "notin": "∉",
    "subset": "⊂",
    "cup": "∪",
    "cap": "∩",
    "land": "∧",
    "lor": "∨",
    "lnot": "¬",
    "neg": "¬",
    "oplus": "⊕",
    "otimes": "⊗",
    "odot": "⊙",
    "circ": "∘",
    "pm": "±",
    "div": "÷",
    "sum": "Σ",
    "prod": "Π",
    "int": "∫",
    "partial": "∂",
    "nabla": "∇",
    "infty": "∞",
    "ldots": "…",
    "dots": "…",
    "cdots": "…",
    "vdots": "…",
    "rightarrow": "→",
    "to": "→",
    "mapsto": "↦",
    "leftarrow": "←",
    "implies": "⇒",
    "Vert": "‖",
    "lVert": "‖",
    "rVert": "‖",
    "|": "‖",
    "vert": "|",
    "lvert": "|",
    "rvert": "|",
    "mid": "|",
    "ell": "l",
    "prime": "'",
    "forall": "∀",
    "exists": "∃",
    "langle": "⟨",
    "rangle": "⟩",
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
    "varepsilon": "ε",
    "eta": "η",
    "theta": "θ",
    "kappa": "κ",
    "lambda": "λ",
    "mu": "μ",
    "nu": "ν",
    "xi": "ξ",
    "pi": "π",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "phi": "φ",
    "varphi": "φ",
    "chi": "χ",
    "psi": "ψ",
    "omega": "ω",
    "Gamma": "Γ",
    "Delta": "Δ",
    "Theta": "Θ",
    "Lambda": "Λ",
    "Pi": "Π",
    "Sigma": "Σ",
    "Phi": "Φ",
    "Psi": "Ψ",
    "Omega": "Ω",
    "star": "*",
    "top": "T",
    "lbrace": "{",
    "rbrace": "}",
    "_": "_",
    "{": "{",
    "}": "}",
    "%": "%",
    "#": "#",
    "&": "&",
    "$": "$",
}
_FUNCTIONS = re.compile(
    "log|ln|exp|(?:arc)?(?:sin|cos|tan)|(?:sin|cos|tan)h|max|min|sup|inf|lim|arg|det|dim|gcd|b?mod|"
    "Re|Im|erfc?|sinc"
)
_LETTERS = {"R": "ℝ", "C": "ℂ", "Z": "ℤ", "N": "ℕ", "K": "𝕂", "E": "𝔼", "F": "𝔽"}
_ROUNDED = {"lceil": "ceil(", "lfloor": "floor(", "rceil": ")", "rfloor": ")"}
_MARKS = re.compile("hat|bar|tilde|vec|(?:over|under)line|wide(?:hat|tilde)|boldsymbol|bm")


def plain_formula(latex: str) -> str:
    r"""``\left\lceil \frac{a}{b} \right\rceil`` as ``ceil(a / b)``; empty if that fails."""
    if "\\begin" in latex:
        return ""
    # Docstrings that are no raw strings say a backslash by two.
    text = re.sub(r"\\\\(?=[A-Za-z])", r"\\", latex)
    text = _SPACE.sub(" ", _DROPPED.sub("", text))
    try:
        found = _Reader(_TOKEN.findall(text)).all()
    except _Unknown:
        return ""
    found = re.sub(r"([(\[]) +", r"\1", re.sub(r" +([)\],])", r"\1", found))
    return " ".join(found.split())


class _Unknown(Exception):
    """A command that has no plain form."""


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def all(self, end: str = "") -> str:
        parts: list[str] = []
        while self._at < len(self._tokens):
            if end and self._tokens[self._at] == end:
                self._at += 1
                return "".join(parts)
            parts.append(self._one())
        if end:
            raise _Unknown
        return "".join(parts)

    def _one(self) -> str:
        token = self._tokens[self._at]
        self._at += 1
        if token == "{":
            return self.all("}")
        if token == "}":
            raise _Unknown
        if token in "^_":
            inner = self._argument()
            return token + (inner if _ALONE.fullmatch(inner) else f"({inner})")
        if not token.startswith("\\"):
            return token
        return self._command(token[1:])

    def _command(self, name: str) -> str:
        if _WORDS.fullmatch(f"\\{name}"):
            return self._argument()
        if name in ("frac", "dfrac", "tfrac"):
            over, under = self._argument(), self._argument()
            return f"{_bracketed(over)} / {_bracketed(under)}"
        if name == "sqrt":
            return f"sqrt({self._argument()})"
        if name == "mathbb":
            letter = self._argument()
            return _LETTERS.get(letter, letter)
        if _MARKS.fullmatch(name):
            return self._argument()
        if name in _ROUNDED:
            return _ROUNDED[name]
        if _FUNCTIONS.fullmatch(name):
            return f" {name}" if name in ("mod", "bmod") else name
        if name in _SYMBOLS:
            return _SYMBOLS[name]
        raise _Unknown

    def _argument(self) -> str:
        while self._at < len(self._tokens) and self._tokens[self._at].isspace():
            self._at += 1
        if self._at == len(self._tokens):
            raise _Unknown
        return self._one().strip()


def _bracketed(text: str) -> str:
    return text if _SIMPLE.fullmatch(text) else f"({text})"

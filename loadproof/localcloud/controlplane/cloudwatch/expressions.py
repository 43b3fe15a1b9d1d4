"""CloudWatch's metric math, as far as alarms and scaling policies use it; the rest is refused by name.

Grammar: numbers, ids of metrics, `+ - * / ^`, comparisons, `AND OR`, `[a, b]`, and the functions in FUNCTIONS. A time
series is a list with None where a period has no data. Source: CloudWatch user guide, "Using math expressions".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loadproof.localcloud.wire import AwsError

Points = list[float | None]
Value = float | Points | list[Points]  # a scalar, a time series, several of them

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|(?P<name>[A-Za-z][A-Za-z0-9_]*)"
    r'|(?P<text>"[^"]*"|\'[^\']*\')|(?P<sign>&&|\|\||[<>=!]=|[-+*/^()\[\],<>]))'
)
_SIGNS: Mapping[str, Callable[[float, float], float | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else None,  # CloudWatch leaves a division by zero without a point
    "^": lambda a, b: _power(a, b),
    "<": lambda a, b: float(a < b),
    "<=": lambda a, b: float(a <= b),
    ">": lambda a, b: float(a > b),
    ">=": lambda a, b: float(a >= b),
    "==": lambda a, b: float(a == b),
    "!=": lambda a, b: float(a != b),
    "AND": lambda a, b: float(bool(a) and bool(b)),
    "OR": lambda a, b: float(bool(a) or bool(b)),
}
# Loosest first; each level's operators join from the left.
_LEVELS = (("OR",), ("AND",), ("==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/"), ("^",))
_WORDS = {"&&": "AND", "||": "OR"}


def _power(base: float, exponent: float) -> float | None:
    try:
        result = base**exponent
    except (OverflowError, ZeroDivisionError):
        return None
    return result if isinstance(result, float) else None


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Name:
    """The id of a metric or of another expression; REPEAT in FILL."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator with its arguments; `[` is a list of time series."""

    function: str
    arguments: tuple[Node, ...]


Node = Number | Name | Call


def refuse(message: str) -> AwsError:
    return AwsError("ValidationError", message)


class TokenReader:
    """Tokens one after the other; `where` begins the refusal of one that is not expected."""

    def __init__(self, where: str, tokens: Sequence[str]) -> None:
        self._where, self._tokens, self._at = where, tokens, 0

    def peek(self) -> str:
        """The next token, empty at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def next(self) -> str:
        token = self.peek()
        if not token:
            raise self.fault("it ends too early")
        self._at += 1
        return token

    def taken(self, token: str) -> bool:
        """Whether the next token is this one, which is then behind."""
        found = self.peek() == token
        self._at += found
        return found

    def expect(self, token: str) -> None:
        if self.peek() and not token:
            raise self.fault(f"did not expect `{self.peek()}`")
        if not self.taken(token):
            raise self.fault(f"expected `{token}`, found `{self.peek() or 'the end'}`")

    def fault(self, what: str) -> AwsError:
        return refuse(f"{self._where}: {what}.")


class _Parser(TokenReader):
    def whole(self) -> Node:
        node = self._level(0)
        self.expect("")
        return node

    def _level(self, depth: int) -> Node:
        if depth == len(_LEVELS):
            return self._unary()
        node = self._level(depth + 1)
        while (sign := _WORDS.get(self.peek(), self.peek())) in _LEVELS[depth]:
            self.next()
            node = Call(sign, (node, self._level(depth + 1)))
        return node

    def _unary(self) -> Node:
        if self.taken("-"):
            return Call("-", (Number(0.0), self._unary()))
        return self._atom()

    def _atom(self) -> Node:
        token = self.peek()
        self._at += 1
        if token == "(":
            node = self._level(0)
            self.expect(")")
            return node
        if token == "[":
            return Call("[", self._arguments("]"))
        if token[:1].isdigit() or token[:1] == ".":
            return Number(float(token))
        if not token[:1].isalpha():
            raise self.fault(f"expected a metric, a number or a function, found `{token or 'the end'}`")
        return self._call(token) if self.taken("(") else Name(token)

    def _call(self, function: str) -> Node:
        arguments = self._arguments(")")
        if function not in FUNCTIONS:
            raise self.fault(
                f"the local cloud does not compute {function}(); it computes {', '.join(sorted(FUNCTIONS))}"
            )
        fewest, most, _ = FUNCTIONS[function]
        if not fewest <= len(arguments) <= most:
            raise self.fault(f"{function}() takes {fewest}{f' to {most}' if most > fewest else ''} arguments")
        return Call(function, arguments)

    def _arguments(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self.taken(end):
            found.append(self._level(0))
            if self.peek() != end:
                self.expect(",")
        return tuple(found)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None or found.group("text"):
            raise refuse(f"Error in expression '{text}': the local cloud does not read `{text[at:].strip()[:20]}`.")
        yield found.group(found.lastgroup or 0)
        at = found.end()


def parse(text: str) -> Node:
    """Raises ValidationError for what is no expression and for functions that are not computed here."""
    return _Parser(f"Error in expression '{text}'", list(_tokens(text))).whole()


def names_in(node: Node) -> frozenset[str]:
    """The ids that an expression needs; `*` for METRICS(), which needs all metrics."""
    if isinstance(node, Name):
        return frozenset() if node.text == "REPEAT" else frozenset({node.text})
    if isinstance(node, Number):
        return frozenset()
    own = frozenset({"*"}) if node.function == "METRICS" else frozenset()
    return own.union(*(names_in(one) for one in node.arguments))


@dataclass(frozen=True, slots=True)
class Context:
    """What ids stand for; `metrics` are the ids that METRICS() means; `length` periods of `period_s`."""

    values: Mapping[str, Value]
    metrics: tuple[str, ...]
    length: int
    period_s: float


def evaluate(node: Node, context: Context) -> Value:
    """The value of an expression over a run of periods."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Name):
        return context.values[node.text]
    if node.function in _SIGNS:
        left, right = (evaluate(one, context) for one in node.arguments)
        return _each(_SIGNS[node.function], left, right)
    if node.function == "[":
        return [_points(evaluate(one, context), context) for one in node.arguments]
    return FUNCTIONS[node.function][2](node.arguments, context)


def _each(operate: Callable[[float, float], float | None], left: Value, right: Value) -> Value:
    """An operator on scalars, or on series period by period."""
    if _several(left) or _several(right):
        raise refuse("The local cloud does not compute with several time series at once outside of MAX, MIN, SUM, AVG.")
    if isinstance(left, list) or isinstance(right, list):
        length = len(left) if isinstance(left, list) else len(right)  # type: ignore[arg-type]
        return [
            None if a is None or b is None else operate(a, b)
            for a, b in zip(_series(left, length), _series(right, length), strict=True)
        ]
    result = operate(left, right)
    return math.nan if result is None else result


def _several(value: Value) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)


def _series(value: Value, length: int) -> Points:
    return value if isinstance(value, list) else [value] * length  # type: ignore[return-value]


Arguments = tuple[Node, ...]
Function = Callable[[Arguments, Context], Value]


def _fill(arguments: Arguments, context: Context) -> Value:
    points = _points(evaluate(arguments[0], context), context)
    if arguments[1] == Name("REPEAT"):
        filled: Points = []
        for point in points:
            filled.append(filled[-1] if point is None and filled else point)
        return filled
    filler = _points(evaluate(arguments[1], context), context)
    return [other if point is None else point for point, other in zip(points, filler, strict=True)]


def _if(arguments: Arguments, context: Context) -> Value:
    condition = evaluate(arguments[0], context)
    then = _points(evaluate(arguments[1], context), context)
    # Without a third argument, the periods for which the condition does not hold have no value.
    other: Points = [None] * context.length
    if len(arguments) == 3:
        other = _points(evaluate(arguments[2], context), context)
    chosen = zip(_series(condition, context.length), then, other, strict=True)
    return [None if holds is None else (yes if holds else no) for holds, yes, no in chosen]


def _reduced(reduce: Callable[[list[float]], float]) -> Function:
    """Of one series: a scalar over its periods. Of several: a series over them, what is missing left out."""

    def run(arguments: Arguments, context: Context) -> Value:
        value = evaluate(arguments[0], context)
        if not _several(value):
            present = [point for point in _series(value, context.length) if point is not None]
            return reduce(present) if present else math.nan
        columns = zip(*value, strict=True)  # type: ignore[misc]
        present_in = ([point for point in column if point is not None] for column in columns)
        return [reduce(present) if present else None for present in present_in]

    return run


def _mapped(change: Callable[[float], float]) -> Function:
    def run(arguments: Arguments, context: Context) -> Value:
        return _each(lambda a, _: change(a), evaluate(arguments[0], context), 0.0)

    return run


# By name: the fewest and the most arguments, and what is done with them.
FUNCTIONS: Mapping[str, tuple[int, int, Function]] = {
    "FILL": (2, 2, _fill),
    "IF": (2, 3, _if),
    "MAX": (1, 1, _reduced(max)),
    "MIN": (1, 1, _reduced(min)),
    "SUM": (1, 1, _reduced(math.fsum)),
    "AVG": (1, 1, _reduced(lambda values: math.fsum(values) / len(values))),
    "ABS": (1, 1, _mapped(abs)),
    "CEIL": (1, 1, _mapped(lambda value: float(math.ceil(value)))),
    "FLOOR": (1, 1, _mapped(lambda value: float(math.floor(value)))),
    "METRICS": (0, 0, lambda arguments, context: [_points(context.values[name], context) for name in context.metrics]),
    "PERIOD": (1, 1, lambda arguments, context: context.period_s),
    "TIME_SERIES": (1, 1, lambda arguments, context: _points(evaluate(arguments[0], context), context)),
}


def _points(value: Value, context: Context) -> Points:
    return _series(value, context.length)


def result_of(node: Node, context: Context) -> Points:
    """An expression as the one time series that an alarm or a query returns."""
    value = evaluate(node, context)
    if _several(value):
        raise refuse("The expression returns several time series where one is wanted.")
    return [None if point is None or math.isnan(point) else point for point in _series(value, context.length)]

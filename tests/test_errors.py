"""The chain of causes of an exception."""

from onnxlab.errors import chain
from onnxlab.notebook.expectations import expect_error


class Equal(Exception):
    """An exception that equals every other of its class, as an exception with data may."""

    def __eq__(self, other):
        return isinstance(other, Equal)

    __hash__ = Exception.__hash__


def fail():
    try:
        raise Equal("the reason")
    except Equal as cause:
        raise Equal("the consequence") from cause


def test_a_cause_that_equals_its_consequence_is_in_the_chain(capsys):
    with expect_error(Equal, "the reason"):
        fail()
    assert "caused by Equal: the reason" in capsys.readouterr().out


def test_causes_that_form_a_circle_end():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert chain(first) == [first, second]

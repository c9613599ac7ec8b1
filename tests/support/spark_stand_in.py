"""A stand-in for a Spark session, in whose place calls are made in this process."""


class Here:
    """Stands in for a session: calls are made in this process, one after the other."""

    defaultParallelism = 1  # noqa: N815

    def __init__(self, before=None):
        self.made = []
        self.before = before

    @property
    def sparkContext(self):  # noqa: N802
        return self

    def parallelize(self, arguments, slices):
        assert slices == len(arguments)
        return _Calls(self, arguments)


class _Calls:
    def __init__(self, here, arguments):
        self.here, self.arguments = here, arguments

    def map(self, call):
        self.call = call
        return self

    def collect(self):
        results = []
        for argument in self.arguments:
            if self.here.before is not None:
                self.here.before(argument)
            self.here.made.append(argument[0])
            results.append(self.call(argument))
        return results


class FailedError(Exception):
    """A task that fails."""


def failing_at(number):
    def fail(argument):
        if argument[0] == number:
            raise FailedError

    return fail

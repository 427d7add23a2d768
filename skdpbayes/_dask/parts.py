"""Parts of a table that are in the memory of a cluster's workers.

    theta -> workers -> one sum for each part -> the client, which adds them up

A pass is one task for each thread of a worker, about the parts that are there. A worker that is lost takes
its parts with it: Dask computes them anew from where they came, and so the same sums. Arguments of tasks that
fail are logged by workers, records among them: so no task fails, but returns what went wrong, by its kind.
"""

from functools import reduce
from operator import add
from uuid import uuid4

from dask.sizeof import sizeof

from ..samplers._machinery.parts import Part, Parts, of_target


class Failed:
    """What a task returns that went wrong: an error that says nothing of records."""

    def __init__(self, error):
        self.error = error


class DaskParts(Parts):
    """Parts on a cluster.

    Parameters
    ----------
    client : distributed.Client
    futures : list of distributed.Future
        Of targets, or whatever `kept` makes them of.
    sizes : sequence of int
    """

    def __init__(self, client, futures, sizes):
        super().__init__(sizes)
        self.client, self.futures, self._tasks = client, futures, []
        self._groups = _groups(client, futures)

    def call(self, function, of_parts, *args):
        """Return what a function returns for each part, in their order."""
        found = [None] * len(self.futures)
        of_groups = [[of_parts[p] for p in group] for group in self._groups]
        for group, results in zip(
            self._groups, self._asked(do_each, function, of_groups, args), strict=True
        ):
            for p, result in zip(group, results, strict=True):
                found[p] = result
        return raised(found)

    def count(self, function, *args):
        """Return the sum over parts, those of a worker being added up there."""
        unused = [None] * len(self._groups)
        return reduce(add, raised(self._asked(do_sum, function, unused, args)))

    def _asked(self, do, function, of_groups, args):
        """Return what a task for each group of parts returns.

        The client sends messages every 10 ms, so all tasks go in one. Those of the last pass are given back
        after it.
        """
        tasks = self.client.map(
            do,
            [function] * len(self._groups),
            [[self.futures[p] for p in group] for group in self._groups],
            of_groups,
            [args] * len(self._groups),
            key=[_name(function) for _ in self._groups],
        )
        self._tasks = tasks
        return self.client.gather(tasks)

    def chosen(self, numbers):
        """Return the parts with some numbers."""
        futures = [self.futures[p] for p in numbers]
        return DaskParts(self.client, futures, [self.sizes[p] for p in numbers])

    def kept(self, function, *args):
        """Return the parts whose targets a function makes of those of these, on the same workers."""
        futures = [
            self.client.submit(make_one, function, future, args, key=_name(function))
            for future in self.futures
        ]
        return DaskParts(self.client, checked(self.client, futures), self.sizes)


@sizeof.register(Part)
def _size_of(part):
    """Return how many bytes a part has: by them Dask decides what moves to other workers, and to disk."""
    return sizeof(part.target)


def _name(function):
    """Return a name for a task: it is shown, says nothing of arguments, and no other client has it."""
    return f"{function.__name__.strip('_')}-{uuid4().hex}"


def _groups(client, futures):
    """Return the numbers of the futures on each worker, in as many groups as it has threads."""
    places, threads = client.who_has(futures), client.nthreads()
    on = {}
    for number, future in enumerate(futures):
        on.setdefault(next(iter(places.get(future.key, ())), None), []).append(number)
    groups = []
    for worker, numbers in on.items():
        n = threads.get(worker, 1)
        groups += [numbers[first::n] for first in range(min(n, len(numbers)))]
    return groups


def raised(results):
    """Return results, or raise the first error among them."""
    for found in filter(failure, results):
        raise found.error
    return results


def checked(client, futures):
    """Return futures when they are done; raise the first error, in their order."""
    raised(client.gather(client.map(failure, futures, pure=False)))
    return futures


# What workers do.


def failure(result):
    """Return what went wrong, or None."""
    return result if isinstance(result, Failed) else None


def says_why(function):
    """Declare that the errors of a function say nothing of records."""
    function.says_why = True
    return function


def do_one(function, part, *args):
    """Return what a function returns, or what went wrong; what went wrong before stays."""
    if isinstance(part, Failed):
        return part
    try:
        return function(part, *args)
    except Exception as error:
        if getattr(function, "says_why", False):
            return Failed(error)
        return Failed(RuntimeError(f"a worker's task ended with {type(error).__name__}."))


def make_one(function, part, args):
    """Return the `Part` that a function makes of another's target, or what went wrong."""
    made = do_one(function, part if isinstance(part, Failed) else part.target, *args)
    return made if isinstance(made, Failed) else Part(made)


def do_each(function, parts, of_parts, args):
    """Return what a function returns for each of a worker's parts."""
    return [do_one(function, part, own, *args) for part, own in zip(parts, of_parts, strict=True)]


def do_sum(function, parts, _, args):
    """Return the sum of what a function returns for the targets of a worker's parts."""
    found = [do_one(of_target, part, function, args, {}) for part in parts]
    return next(filter(failure, found), None) or reduce(add, found)

"""Parts of a table that are in the memory of a cluster's workers.

    theta -> workers -> one sum for each part -> the client, which adds them up

A pass is one task for each thread of a worker, about the parts that are there. A worker that is lost takes
its parts with it: Dask computes them anew from where they came, and so the same sums. Arguments of tasks that
fail are logged by workers, records among them: so no task fails, but returns what went wrong, by its kind.
"""

import itertools

from distributed import wait

from ..samplers._machinery.parts import Parts


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
        self.client, self.futures = client, futures
        self._groups = _groups(client, futures)

    def each(self, function, *args, of_parts=None, **options):
        """Return what a function returns for each part, in their order."""
        tasks = [
            self.client.submit(
                do_each,
                function,
                [self.futures[p] for p in group],
                None if of_parts is None else [of_parts[p] for p in group],
                args,
                options,
                pure=False,
                key=_name(function),
            )
            for group in self._groups
        ]
        found = [None] * len(self.futures)
        for group, results in zip(self._groups, self.client.gather(tasks), strict=True):
            for p, result in zip(group, results, strict=True):
                found[p] = result
        for result in found:
            if isinstance(result, Failed):
                raise result.error
        return found

    def chosen(self, numbers):
        """Return the parts with some numbers."""
        futures = [self.futures[p] for p in numbers]
        return DaskParts(self.client, futures, [self.sizes[p] for p in numbers])

    def kept(self, function, *args):
        """Return the parts that a function makes of these, on the same workers."""
        futures = [
            self.client.submit(do_one, function, future, args, pure=False, key=_name(function))
            for future in self.futures
        ]
        return DaskParts(self.client, checked(self.client, futures), self.sizes)


_numbers = itertools.count()


def _name(function):
    """Return a name for a task: it is shown, and says nothing of arguments."""
    return f"{function.__name__.strip('_')}-{id(_numbers):x}-{next(_numbers)}"


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


def checked(client, futures):
    """Return futures when they are done; raise the first error, in their order."""
    wait(futures)
    for found in client.gather(client.map(failure, futures, pure=False)):
        if found is not None:
            raise found.error
    return futures


# What workers do.


def failure(result):
    """Return what went wrong, or None."""
    return result if isinstance(result, Failed) else None


def says_why(function):
    """Declare that the errors of a function say nothing of records."""
    function.says_why = True
    return function


def do_one(function, part, args):
    """Return what a function returns, or what went wrong; what went wrong before stays."""
    if isinstance(part, Failed):
        return part
    try:
        return function(part, *args)
    except Exception as error:
        if getattr(function, "says_why", False):
            return Failed(error)
        return Failed(RuntimeError(f"a worker's {function.__name__} ended with {type(error).__name__}."))


def do_each(function, parts, of_parts, args, options):
    """Return what a function returns for each of a worker's parts."""
    own = [()] * len(parts) if of_parts is None else [(mine,) for mine in of_parts]
    return [
        do_one(lambda part, *all: function(part, *all, **options), part, (*mine, *args))
        for part, mine in zip(parts, own, strict=True)
    ]

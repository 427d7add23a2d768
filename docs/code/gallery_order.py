"""The order of the gallery: first what most readers ask."""

ORDER = [
    "plot_votes.py",
    "plot_doctor_visits.py",
    "plot_private_workflow.py",
    "plot_cost_of_epsilon.py",
    "plot_private_scores.py",
    "plot_persons.py",
    "plot_wages.py",
    "plot_survival.py",
    "plot_one_budget.py",
    "plot_groups_of_patients.py",
    "plot_network_or_not.py",
    "plot_one_posterior_sample.py",
    "plot_audit.py",
]


class Order:
    """A sorting key of sphinx-gallery, which also sorts the files that it ignores: they come last."""

    def __init__(self, src_dir):
        self.src_dir = src_dir

    def __call__(self, filename):
        """Return the place of a file."""
        return ORDER.index(filename) if filename in ORDER else len(ORDER)

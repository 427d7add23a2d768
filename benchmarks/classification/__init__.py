"""Classifiers. Page benchmarks: "Accuracy of the samplers", "The private workflow", "Last iterates and paths"
and "A search within a budget". Page tools: "Is a calibration worth its budget?".
"""

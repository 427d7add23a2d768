"""Sums over a table's records, read one by one."""

from skdpbayes.models.sums import clipped_of_block, moment_of_block, read_together


def weighted_moment(target, transform):
    return read_together(target, ((moment_of_block, (transform,)),))[0][0]


def squares_moment(target, theta, clip, transform):
    return read_together(target, ((moment_of_block, (transform, theta, clip)),))[0][0]


def clipped_sums(target, theta, clip, is_weighted=True, centre=None):
    return read_together(target, ((clipped_of_block, (theta, clip, centre, is_weighted)),))[0]

"""The clip with which a look at counts says most.

    (q C tau nu)^2 + n E psi^2 + |n b|^2 / length,      over  Cov(psi, y)^2,      is least

The tighter a clip, the more a look depends on how dispersed counts are (`dispersion`): ``b`` is how much its
mean may be off. So clips are wider where noise is small.
"""

import numpy as np

# The least clip: with a smaller one, a count of 1 would be reduced, too, where 0 is usual. It is also at
# least so many deviations of residuals, because a look far from the mode should tell how far it is.
LEAST_CLIP, _LEAST_DEVIATIONS = 1.0, 1.0
_N_CLIPS = 40


def best_clip(counts, means, centres, reach, n_records, largest, leaning=None):
    """Return the clip.

    Parameters
    ----------
    counts, means, centres : ndarray of shape (n,)
        Counts as they may be, their means, and what is subtracted from them.
    reach : float
        Noise of a look, for a clip of 1.
    n_records : float
    largest : float
        Of counts.
    leaning : callable or None, default=None
        Maps a clip to ``b``.
    """
    least = max(LEAST_CLIP, _LEAST_DEVIATIONS * float(np.std(counts - centres)))
    clips = np.geomspace(least, max(largest, 2.0 * least), _N_CLIPS)
    psi = np.clip(counts - centres, -clips[:, None], clips[:, None])
    variances = (reach * clips) ** 2 + n_records * np.mean(psi**2, axis=1)
    if leaning is not None:
        of_clips = np.array([leaning(clip) for clip in clips])
        variances += n_records**2 * np.mean(of_clips**2, axis=1)
    raised = counts - means
    slopes = psi @ (raised - raised.mean()) / raised.size
    return float(clips[np.argmin(variances / np.maximum(slopes, 1e-12) ** 2)])

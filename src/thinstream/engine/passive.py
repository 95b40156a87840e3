"""How far a passive-aggressive learner goes."""

from thinstream.jit import scalar

UNBOUNDED, PA_I, PA_II = range(3)


@scalar
def tau(variant: int, C: float, loss: float, squared_norm: float) -> float:
    """ℓ/‖x‖², min(C, ℓ/‖x‖²) or ℓ/(‖x‖² + 1/(2C)); 0 for an empty example."""
    if squared_norm == 0.0:
        return 0.0
    if variant == PA_II:
        return loss / (squared_norm + 1.0 / (2.0 * C))
    tau = loss / squared_norm
    return min(C, tau) if variant == PA_I else tau

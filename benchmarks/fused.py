"""FSOL, SSOL and AROW each fused by hand into one numba loop: what the generic loop is measured against.

They keep the same books (label counts, mistakes, updates, loss), take the same arrays and sum in the same order; only
the generality is gone. Class costs, sample weights and other schedules are left out, in their favour.
"""

import numpy as np
from numba import njit

from thinstream.engine.loop import prefetch
from thinstream.jit import register_declarations

register_declarations()  # prefetch
U = np.uint64


@njit(nogil=True, error_model="numpy")
def fsol(eta, l1, indptr, indices, values, y, theta, counts, totals):
    threshold, zero, gain = theta.dtype.type(eta * l1), theta.dtype.type(0), theta.dtype.type(eta)
    n = len(y)
    for i in range(n):
        a, b = U(indptr[i]), U(indptr[i + 1])
        if i + 1 < n:
            for k in range(b, U(indptr[i + 2])):
                prefetch(theta, U(indices[k]))
        s0 = s1 = s2 = s3 = zero
        k = a
        while k + U(3) < b:
            u = theta[U(indices[k])]
            s0 += (u - max(-threshold, min(u, threshold))) * values[k]
            u = theta[U(indices[k + U(1)])]
            s1 += (u - max(-threshold, min(u, threshold))) * values[k + U(1)]
            u = theta[U(indices[k + U(2)])]
            s2 += (u - max(-threshold, min(u, threshold))) * values[k + U(2)]
            u = theta[U(indices[k + U(3)])]
            s3 += (u - max(-threshold, min(u, threshold))) * values[k + U(3)]
            k += U(4)
        while k < b:
            u = theta[U(indices[k])]
            s0 += (u - max(-threshold, min(u, threshold))) * values[k]
            k += U(1)
        s = (s0 + s1) + (s2 + s3)
        counts[0] += 1
        counts[1] += y[i] > 0
        counts[2] += (s > 0) != (y[i] > 0)
        loss = max(0.0, 1.0 - y[i] * float(s))
        if loss > 0.0:
            totals[0] += loss
            counts[4] += 1
            size = gain if y[i] > 0 else -gain
            for k in range(a, b):
                theta[U(indices[k])] += size * values[k]


@njit(nogil=True, error_model="numpy")
def ssol(eta, l1, r, indptr, indices, values, y, state, counts, totals):
    zero, one, gain = state.dtype.type(0), state.dtype.type(1), state.dtype.type(eta)
    n, c = len(y), state.dtype.type(1.0 / r)
    for i in range(n):
        a, b = U(indptr[i]), U(indptr[i + 1])
        if i + 1 < n:
            for k in range(b, U(indptr[i + 2])):
                prefetch(state, U(2) * U(indices[k]))
        v0 = v1 = v2 = v3 = zero
        k = a
        while k + U(3) < b:
            v0 += state[U(2) * U(indices[k]) + U(1)] * values[k] * values[k]
            v1 += state[U(2) * U(indices[k + U(1)]) + U(1)] * values[k + U(1)] * values[k + U(1)]
            v2 += state[U(2) * U(indices[k + U(2)]) + U(1)] * values[k + U(2)] * values[k + U(2)]
            v3 += state[U(2) * U(indices[k + U(3)]) + U(1)] * values[k + U(3)] * values[k + U(3)]
            k += U(4)
        while k < b:
            v0 += state[U(2) * U(indices[k]) + U(1)] * values[k] * values[k]
            k += U(1)
        v = (v0 + v1) + (v2 + v3)
        counts[0] += 1
        threshold = state.dtype.type(l1 / counts[0])
        s0 = s1 = s2 = s3 = zero
        k = a
        while k + U(3) < b:
            s0 += _ssol_term(state, U(2) * U(indices[k]), values[k], c, v, threshold, one)
            s1 += _ssol_term(state, U(2) * U(indices[k + U(1)]), values[k + U(1)], c, v, threshold, one)
            s2 += _ssol_term(state, U(2) * U(indices[k + U(2)]), values[k + U(2)], c, v, threshold, one)
            s3 += _ssol_term(state, U(2) * U(indices[k + U(3)]), values[k + U(3)], c, v, threshold, one)
            k += U(4)
        while k < b:
            s0 += _ssol_term(state, U(2) * U(indices[k]), values[k], c, v, threshold, one)
            k += U(1)
        s = (s0 + s1) + (s2 + s3)
        counts[1] += y[i] > 0
        counts[2] += (s > 0) != (y[i] > 0)
        loss = max(0.0, 1.0 - y[i] * float(s))
        if loss > 0.0:
            totals[0] += loss
            counts[4] += 1
            size = gain if y[i] > 0 else -gain
            for k in range(a, b):
                state[U(2) * U(indices[k])] += size * values[k]


@njit(nogil=True, error_model="numpy", inline="always")
def _ssol_term(state, j, x, c, v, threshold, one):
    sigma = state[j + U(1)]
    quotient = one / (one + c * v)
    sigma = sigma * (quotient + c * quotient * (v - sigma * x * x))
    state[j + U(1)] = sigma
    u = sigma * state[j]
    return (u - max(-threshold, min(u, threshold))) * x


@njit(nogil=True, error_model="numpy")
def arow(r, indptr, indices, values, y, state, counts, totals):
    zero, one, c = state.dtype.type(0), state.dtype.type(1), state.dtype.type(1.0 / r)
    n = len(y)
    for i in range(n):
        a, b = U(indptr[i]), U(indptr[i + 1])
        if i + 1 < n:
            for k in range(b, U(indptr[i + 2])):
                prefetch(state, U(2) * U(indices[k]))
        s0 = s1 = s2 = s3 = v0 = v1 = v2 = v3 = zero
        k = a
        while k + U(3) < b:
            j, x = U(2) * U(indices[k]), values[k]
            s0 += state[j] * x
            v0 += one / state[j + U(1)] * x * x
            j, x = U(2) * U(indices[k + U(1)]), values[k + U(1)]
            s1 += state[j] * x
            v1 += one / state[j + U(1)] * x * x
            j, x = U(2) * U(indices[k + U(2)]), values[k + U(2)]
            s2 += state[j] * x
            v2 += one / state[j + U(1)] * x * x
            j, x = U(2) * U(indices[k + U(3)]), values[k + U(3)]
            s3 += state[j] * x
            v3 += one / state[j + U(1)] * x * x
            k += U(4)
        while k < b:
            j, x = U(2) * U(indices[k]), values[k]
            s0 += state[j] * x
            v0 += one / state[j + U(1)] * x * x
            k += U(1)
        s, v = (s0 + s1) + (s2 + s3), (v0 + v1) + (v2 + v3)
        counts[0] += 1
        counts[1] += y[i] > 0
        counts[2] += (s > 0) != (y[i] > 0)
        loss = max(0.0, 1.0 - y[i] * float(s))
        if loss > 0.0:
            totals[0] += loss
            counts[4] += 1
            size = state.dtype.type(loss / (float(v) + r) * y[i])
            for k in range(a, b):
                j, x = U(2) * U(indices[k]), values[k]
                state[j] += size * (one / state[j + U(1)]) * x
                state[j + U(1)] += c * x * x

"""The naive side: dense, float64, straight from the equations, nothing from thinstream.

Each twin takes batches of rows (FGM and SparDCA: all of them) and ends with ``w``; ``edge`` is the smallest distance of
any decision from its threshold.
"""

import numpy as np


def soft(v, a):
    return np.sign(v) * np.maximum(np.abs(v) - a, 0.0)


def root(S):
    """The symmetric square root."""
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(values)) @ vectors.T


def grad_conjugate(z, sigma):
    """∇Ω*(z) for a list of groups z_k, by trying every number of active groups."""
    a = np.array([np.linalg.norm(each) for each in z])
    falling = np.sort(a)[::-1]
    S = 0.0
    for m in range(1, len(a) + 1):
        candidate = falling[:m].sum() / (sigma + m)
        if falling[m - 1] > candidate:
            S = candidate
    return [np.zeros_like(g) if n == 0 else max(0.0, n - S) / sigma * g / n for g, n in zip(z, a)]


class Twin:
    def __init__(self, d, class_weight=None, **parameters):
        self.d, self.class_weight, self.edge = d, class_weight, np.inf
        self.w, self.scores = np.zeros(d), []
        self.t = self.mistakes = self.updates = self.positives = self.negatives = 0
        self.loss = 0.0
        for name, value in parameters.items():
            assert hasattr(self, name)
            setattr(self, name, value)
        self.start()

    def start(self):
        pass

    def q(self):
        return {"hinge": 1, "squared_hinge": 2}[self.loss_name]

    def cost(self, y):
        """c_y of the next example, by the running counts if balanced."""
        self.positives += y > 0
        self.negatives += y < 0
        if self.class_weight == "balanced":
            return max(self.negatives, 1) / max(self.positives, 1) if y > 0 else 1.0
        return 1.0 if self.class_weight is None else self.class_weight[int(y > 0)]

    def count(self, score, y, updated, loss):
        self.t += 1
        self.scores.append(score)
        self.mistakes += (1.0 if score > 0 else -1.0) != y
        self.updates += bool(updated)
        self.loss += loss

    def near(self, value):
        if value != 0:
            self.edge = min(self.edge, abs(value))

    def choose(self, score, r, taken):
        """The r best features by score², lower numbers first, none of score 0."""
        order = sorted(
            (j for j in range(self.d) if j not in taken and score[j] != 0), key=lambda j: (-(score[j] ** 2), j)
        )
        size = np.abs(score).max(initial=1.0)
        for j in order[:r]:
            for k in order[r:]:
                self.near((abs(score[j]) - abs(score[k])) / size)
        for j in order:
            self.near(score[j] / size)
        return sorted(order[:r])


class NaiveBCW(Twin):
    """P1 Algorithm 1 with the symmetric root of Σ."""

    C, loss_name = 1.0, "hinge"

    def start(self):
        self.Sigma = np.eye(self.d)

    def batch(self, X, y, weights):
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        self.Sigma = np.linalg.inv(np.linalg.inv(self.Sigma) + self.C * X.T @ X)
        Y = root(self.Sigma)
        w = np.linalg.solve(Y, self.w)
        for x, label, weight in zip(X, y, weights):
            c = self.cost(label) * weight
            xh = Y @ x
            s = w @ xh
            xi = max(0.0, 1.0 - label * s)
            self.near(1.0 - label * s)
            self.near(s)
            if xi > 0:
                n2 = xh @ xh
                clipped = min(xi / n2, self.C) if x.any() else 0.0
                alpha = xi / (n2 + 0.5 / self.C) if self.q() == 2 else clipped
                w = w + alpha * c * label * xh
            self.count(s, label, xi > 0, xi)
        self.w = Y @ w

    def variance(self):
        return np.diag(self.Sigma)


class NaiveSBCW(Twin):
    """P1 Algorithms 2 and 3 with a full Σ̂."""

    r, n_groups, C, loss_name, sigma, tol = 10, 15, 1.0, "hinge", 1e-3, 0.0

    def start(self):
        self.Sigma = np.eye(self.d)

    def batch(self, X, y, weights):
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        c = np.array([self.cost(label) for label in y]) * weights
        alpha, groups, roots, objective = np.ones(len(y)), [], [], None
        w, run = [], [(0.0, 1.0)] * len(y)
        for _ in range(self.n_groups):
            J = self.choose((alpha * c * y) @ X, self.r, {j for group in groups for j in group})
            if not J:
                break
            S = np.linalg.inv(np.linalg.inv(self.Sigma[np.ix_(J, J)]) + self.C * X[:, J].T @ X[:, J])
            groups.append(J)
            roots.append(root(S))
            alpha, w, run = self.ascend(X, y, c, groups, roots)
            if self.tol > 0:
                mu = self.mean(groups, roots, w)
                xi = np.maximum(0.0, 1.0 - y * (X @ mu))
                norms = sum(np.linalg.norm(each) for each in w)
                new = 0.5 * norms**2 + self.C / self.q() * (c * xi ** self.q()).sum()
                if objective is not None:
                    self.near(abs(new - objective) / abs(new) - self.tol)
                    if abs(new - objective) <= self.tol * abs(new):
                        break
                objective = new
        self.w = self.mean(groups, roots, w)
        for J, R in zip(groups, roots):
            self.Sigma[J, :] = self.Sigma[:, J] = 0.0
            self.Sigma[np.ix_(J, J)] = R @ R
        self.groups = groups
        for (s, xi), label in zip(run, y):
            self.count(s, label, xi > 0, xi)

    def mean(self, groups, roots, w):
        mu = np.zeros(self.d)
        for J, R, each in zip(groups, roots, w):
            mu[J] = R @ each
        return mu

    def ascend(self, X, y, c, groups, roots):
        z = [np.zeros(len(J)) for J in groups]
        w, alpha, run = [np.zeros(len(J)) for J in groups], np.zeros(len(y)), []
        for i in range(len(y)):
            xh = [R @ X[i, J] for J, R in zip(groups, roots)]
            s = sum(a @ b for a, b in zip(w, xh))
            xi = max(0.0, 1.0 - y[i] * s)
            self.near(1.0 - y[i] * s)
            self.near(s)
            run.append((s, xi))
            if xi > 0:
                n2 = sum(each @ each for each in xh)
                empty = not any(X[i, J].any() for J in groups)
                if self.q() == 2:
                    alpha[i] = xi / (self.C * n2 + 0.5)
                else:
                    alpha[i] = 1.0 if empty else min(xi / (self.C * n2), 1.0)
                z = [a + self.C * alpha[i] * c[i] * y[i] * b for a, b in zip(z, xh)]
                w = grad_conjugate(z, self.sigma)
        return alpha, w, run

    def variance(self):
        return np.diag(self.Sigma)


class WholeTwin(Twin):
    def costs(self, y, weights):
        if self.class_weight == "balanced":
            ratio = max((y < 0).sum(), 1) / max((y > 0).sum(), 1)
            return weights * np.where(y > 0, ratio, 1.0)
        negative, positive = self.class_weight or (1.0, 1.0)
        return weights * np.where(y > 0, positive, negative)


class NaiveSparDCA(WholeTwin):
    l1, C, loss_name, n_epochs = 0.0, 1.0, "hinge", 10

    def batch(self, X, y, weights):
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        Cs = self.C * self.costs(y, weights)
        a = np.zeros(len(y))
        for _ in range(self.n_epochs):
            for i in range(len(y)):
                w = soft(X.T @ (a * y), self.l1)
                s, n2, old = w @ X[i], X[i] @ X[i], a[i]
                self.near(s)
                gain = 1.0 - y[i] * s
                if self.q() == 2:
                    a[i] = max(0.0, old + (gain - old / Cs[i]) / (n2 + 1.0 / Cs[i]))
                else:
                    a[i] = np.clip(old + gain / n2, 0.0, Cs[i]) if n2 > 0 else Cs[i]
                self.count(s, y[i], a[i] != old, max(0.0, gain))
        self.a, self.Cs = a, Cs
        self.w = soft(X.T @ (a * y), self.l1)


class NaiveFGM(WholeTwin):
    """Plain proximal gradients with a prox found by bisection."""

    r, n_groups, C = 10, 10, 1.0

    def batch(self, X, y, weights):
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        c = self.costs(y, weights)
        alpha, groups = c.copy(), []
        for _ in range(self.n_groups):
            J = self.choose((alpha * y) @ X, self.r, {j for group in groups for j in group})
            if not J:
                break
            groups.append(J)
            self.w = self.solve(X, y, self.C * c, groups)
            alpha = self.C * c * np.maximum(0.0, 1.0 - y * (X @ self.w))
        self.groups = groups

    def solve(self, X, y, Cs, groups):
        every = [j for J in groups for j in J]
        L = np.linalg.eigvalsh(X[:, every].T @ (Cs[:, None] * X[:, every])).max()
        w = np.zeros(self.d)
        for _ in range(20_000):
            g = X.T @ (Cs * y * np.maximum(0.0, 1.0 - y * (X @ w)))
            new = np.zeros(self.d)
            u = [w[J] + g[J] / L for J in groups]
            low, high = 0.0, sum(np.linalg.norm(each) for each in u)
            for _ in range(60):  # S of S = Σ max(0, ‖u_k‖ − S/L)
                S = (low + high) / 2.0
                total = sum(max(0.0, np.linalg.norm(each) - S / L) for each in u)
                low, high = (S, high) if total > S else (low, S)
            for J, each in zip(groups, u):
                n = np.linalg.norm(each)
                new[J] = max(0.0, n - low / L) * each / n if n else 0.0
            if np.abs(new - w).max() <= 1e-12 * np.abs(new).max():
                break
            w = new
        return new


def run(twin, batches):
    """The twin after the batches, each (X, y, weights)."""
    for X, y, weights in batches:
        twin.batch(X, y, np.ones(len(y)) if weights is None else weights)
    return twin

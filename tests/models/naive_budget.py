"""A budget of features by the book: dicts, lists and rows of floats. Imports nothing of ours."""

ODD = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F)


class NaiveSketch:
    """Four rows of counters, of which a number raises its smallest; all halved now and then."""

    def __init__(self, features):
        self.width = 16
        while self.width < 4 * features:
            self.width *= 2
        self.rows = [[0] * self.width for _ in ODD]
        self.counted = 0

    def _cells(self, number):
        low = (number ^ (number >> 32)) % 2**32
        return [(low * odd >> 15) % self.width for odd in ODD]

    def estimate(self, number):
        return min(row[cell] for row, cell in zip(self.rows, self._cells(number), strict=True))

    def see(self, number):
        before = self.estimate(number)
        for row, cell in zip(self.rows, self._cells(number), strict=True):
            if row[cell] == before and before < 255:
                row[cell] = before + 1
        self.counted += 1
        if self.counted == self.width // 2:
            self.rows, self.counted = [[count // 2 for count in row] for row in self.rows], 0
        return before + 1


class NaiveBudget:
    """AROW (r = 1, in doubles, without intercept) on the features that are kept, each with its mean and precision."""

    def __init__(self, max_features, admit):
        self.max_features, self.admit, self.sketch = max_features, admit, NaiveSketch(max_features)
        self.kept, self.ever = {}, 0  # number: [mean, precision, how many were admitted before it]

    def importance(self, number):
        mean, precision, _ = self.kept[number]
        return abs(mean) * (precision - 1.0) ** 0.25  # |w|·q^½, q = √(1/σ − 1)

    def make_room(self, row):
        """Before a row is taken: an eighth gives way where its numbers have no room. Who goes."""
        new, going = [number for number in row if number not in self.kept], []
        if sum(self.sketch.estimate(number) + 1 >= self.admit for number in new) > self.max_features - len(self.kept):
            going = sorted(self.kept, key=lambda number: (self.importance(number), self.kept[number][2]))
            going = going[: max(len(going) // 8, 1)]
            for number in going:
                del self.kept[number]
        return going

    def learn(self, row, y):
        """A row: pairs of number and value, sorted. Its score before it is learned."""
        self.make_room([number for number, _ in row])
        for number, _ in row:
            admitted = number not in self.kept and self.sketch.see(number) >= self.admit
            if admitted and len(self.kept) < self.max_features:
                self.kept[number] = [0.0, 1.0, self.ever]
                self.ever += 1
        return self.take([(number, x) for number, x in row if number in self.kept], y)

    def take(self, here, y):
        """A row of features that are kept. Its score before it is learned."""
        score = sum(self.kept[number][0] * x for number, x in here)
        if y * score < 1.0:
            size = (1.0 - y * score) / (sum(x * x / self.kept[number][1] for number, x in here) + 1.0)
            for number, x in here:
                mean, precision, born = self.kept[number]
                self.kept[number] = [mean + size * y * x / precision, precision + x * x, born]
        return score


class NaiveNamedBudget(NaiveBudget):
    """The same of features with names: a number is that of the name it was admitted under, and of no other."""

    def __init__(self, max_features, admit):
        super().__init__(max_features, admit)
        self.names, self.apart = {}, 0

    def learn(self, row, y):
        """A row: triples of number, name and value, sorted by number; names are different."""
        for number in self.make_room([number for number, _, _ in row]):
            del self.names[number]
        for number, name, _ in row:
            if number in self.kept:
                self.apart += self.names[number] != name
            elif self.sketch.see(number) >= self.admit and len(self.kept) < self.max_features:
                self.kept[number], self.names[number] = [0.0, 1.0, self.ever], name
                self.ever += 1
        return self.take(self.known(row), y)

    def known(self, row):
        """What a row has that is kept, by number."""
        return [(number, x) for number, name, x in row if self.names.get(number) == name]

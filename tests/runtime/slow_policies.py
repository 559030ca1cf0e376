"""Eviction policies as their papers tell them, over plain lists: slow, short and obvious."""

from __future__ import annotations


class SlowLru:
    def __init__(self, capacity_bytes):
        self.order = []

    def expect(self, key, size):
        pass

    def admit(self, key, size):
        self.order.append(key)

    def touch(self, key):
        if key in self.order:
            self.order.remove(key)
            self.order.append(key)

    def hold(self, key):
        self.order.remove(key)

    def release(self, key, size):
        self.order.append(key)

    def victim(self):
        return self.order.pop(0) if self.order else None


class SlowArc:
    """Lists of (key, bytes), least recent first: T1, T2 resident, B1, B2 remembered."""

    def __init__(self, capacity_bytes):
        self.c = capacity_bytes
        self.p = 0.0
        self.t1, self.t2, self.b1, self.b2 = [], [], [], []
        self.often = {}

    def expect(self, key, size):
        self.often[key] = False
        size_of = lambda ghosts: sum(n for _, n in ghosts)  # noqa: E731
        for mine, other, sign in ((self.b1, self.b2, 1), (self.b2, self.b1, -1)):
            if key in [k for k, _ in mine]:
                self.often[key] = True
                step = size * max(1.0, size_of(other) / size_of(mine))
                self.p = max(0.0, min(self.c, self.p + sign * step))
                mine[:] = [(k, n) for k, n in mine if k != key]
                return

    def admit(self, key, size):
        if self.often[key]:
            self.t2.append((key, size))
            return
        self.t1.append((key, size))
        total = lambda *lists: sum(n for some in lists for _, n in some)  # noqa: E731
        while self.b1 and total(self.t1, self.b1) > self.c:
            self.b1.pop(0)
        while self.b2 and total(self.t1, self.t2, self.b1, self.b2) > 2 * self.c:
            self.b2.pop(0)

    def touch(self, key):
        for some in (self.t1, self.t2):
            for entry in some:
                if entry[0] == key:
                    some.remove(entry)
                    self.t2.append(entry)
                    return

    def hold(self, key):
        for some in (self.t1, self.t2):
            some[:] = [(k, n) for k, n in some if k != key]

    def release(self, key, size):
        for ghosts in (self.b1, self.b2):
            ghosts[:] = [(k, n) for k, n in ghosts if k != key]
        self.t2.append((key, size))

    def victim(self):
        if self.t1 and (sum(n for _, n in self.t1) > self.p or not self.t2):
            self.b1.append(self.t1.pop(0))
            return self.b1[-1][0]
        if self.t2:
            self.b2.append(self.t2.pop(0))
            return self.b2[-1][0]
        return None


class SlowS3Fifo:
    def __init__(self, capacity_bytes):
        self.c = capacity_bytes
        self.small, self.main, self.ghosts = [], [], []
        self.uses, self.home = {}, {}

    def expect(self, key, size):
        seen = key in [k for k, _ in self.ghosts]
        self.ghosts = [(k, n) for k, n in self.ghosts if k != key]
        self.home[key] = self.main if seen else self.small
        self.uses[key] = 0

    def admit(self, key, size):
        self.home[key].append((key, size))

    def touch(self, key):
        self.uses[key] = min(3, self.uses[key] + 1)

    def hold(self, key):
        for some in (self.small, self.main):
            some[:] = [(k, n) for k, n in some if k != key]

    def release(self, key, size):
        self.ghosts = [(k, n) for k, n in self.ghosts if k != key]
        self.touch(key)
        self.admit(key, size)

    def victim(self):
        while self.small or self.main:
            if sum(n for _, n in self.small) > self.c / 10 or not self.main:
                key, size = self.small.pop(0)
                if self.uses[key] > 1:
                    self.uses[key] = 0
                    self.home[key] = self.main
                    self.main.append((key, size))
                    continue
                self.uses[key] = 0
                self.ghosts.append((key, size))
                while sum(n for _, n in self.ghosts) > self.c:
                    self.ghosts.pop(0)
                return key
            key, size = self.main.pop(0)
            if not self.uses[key]:
                return key
            self.uses[key] -= 1
            self.main.append((key, size))
        return None


SLOW = {"lru": SlowLru, "arc": SlowArc, "s3fifo": SlowS3Fifo}

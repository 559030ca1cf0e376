import gc
import weakref

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kvengine.runtime.policies import POLICIES, Evictable, make_policy
from tests.runtime.slow_policies import SLOW

CAPACITY = 40


class Thing(Evictable):
    def __init__(self, key, num_bytes):
        self.key, self.num_bytes, self.mark = key, num_bytes, 0


class AgainstTheSlowModel(RuleBasedStateMachine):
    """Any calls in any order: the policy and its slow model name the same victims."""

    def __init__(self):
        super().__init__()
        self.free, self.held = {}, {}

    @initialize(name=st.sampled_from(sorted(POLICIES)))
    def begin(self, name):
        self.policy, self.model = make_policy(name, CAPACITY), SLOW[name](CAPACITY)

    @rule(number=st.integers(0, 30), size=st.integers(1, 8))
    def store(self, number, size):
        key = bytes([number])
        if key in self.free or key in self.held:
            return
        thing = Thing(key, size)
        self.policy.expect([thing])
        self.model.expect(key, size)
        while (
            sum(t.num_bytes for t in [*self.free.values(), *self.held.values()]) + size > CAPACITY
        ):
            if not self.has_evicted():
                return
        self.policy.admit([thing])
        self.model.admit(key, size)
        self.free[key] = thing

    @rule(data=st.data())
    @precondition(lambda self: self.free)
    def touch(self, data):
        key = data.draw(st.sampled_from(sorted(self.free)))
        self.policy.touch([self.free[key]])
        self.model.touch(key)

    @rule(data=st.data())
    @precondition(lambda self: self.free)
    def hold(self, data):
        key = data.draw(st.sampled_from(sorted(self.free)))
        thing = self.held[key] = self.free.pop(key)
        self.policy.hold([thing])
        self.model.hold(key)

    @rule(data=st.data())
    @precondition(lambda self: self.held)
    def release(self, data):
        key = data.draw(st.sampled_from(sorted(self.held)))
        thing = self.free[key] = self.held.pop(key)
        self.policy.release([thing])
        self.model.release(key, thing.num_bytes)

    @rule(data=st.data())
    @precondition(lambda self: self.free)
    def forget(self, data):
        key = data.draw(st.sampled_from(sorted(self.free)))
        self.policy.forget([self.free.pop(key)])
        self.model.hold(key)

    @rule()
    def evict(self):
        self.has_evicted()

    def has_evicted(self):
        key = next((victim.key for victim in self.policy.victims(1)), None)
        assert key == self.model.victim()
        assert (key is None) == (not self.free), "a victim exactly when something may leave"
        if key is None:
            return False
        self.victim = self.free.pop(key)  # a held one would raise
        return True

    @rule()
    def think_better_of_it(self):
        """A victim stays after all, or is in use until later."""
        if self.has_evicted():
            self.held[self.victim.key] = self.victim

    @rule(data=st.data())
    @precondition(lambda self: self.held)
    def lose(self, data):
        del self.held[data.draw(st.sampled_from(sorted(self.held)))]


AgainstTheSlowModel.TestCase.settings = settings(max_examples=60, stateful_step_count=60)
test_policies_name_the_victims_of_their_slow_models = AgainstTheSlowModel.TestCase


def fill(policy, numbers):
    things = [Thing(number.to_bytes(4, "big"), 1) for number in numbers]
    policy.expect(things)
    policy.admit(things)
    return things


@pytest.mark.parametrize("name", ["arc", "s3fifo"])
def test_a_scan_does_not_push_out_what_is_used_often(name):
    """After a scan of ten times the capacity, the chunks in use are still there; under LRU not."""
    left = {}
    for each in (name, "lru"):
        policy = make_policy(each, 100)
        used = fill(policy, range(50))
        for _ in range(3):
            policy.touch(used)
        gone = set()
        for number in range(1000, 2000):
            if number >= 1050:
                gone.update(victim.key for victim in policy.victims(1))
            fill(policy, [number])
        left[each] = sum(thing.key not in gone for thing in used)

    assert left == {name: 50, "lru": 0}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_victim_that_stays_after_all_did_not_leave(name):
    """One that another tier was to take, and a load then used: it leaves once more, and once."""
    policy = make_policy(name, 8)
    things = fill(policy, range(8))
    back = policy.victims(3)[1]
    policy.release([back])
    fill(policy, range(20, 24))

    leaving = policy.victims(99)

    assert back in leaving
    assert len(leaving) == len(set(leaving)) == 8 - 3 + 1 + 4
    assert policy.victims(1) == []
    assert set(things) - set(leaving) == set(things[:3]) - {back}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_victim_may_stay_long_after_it_was_forgotten(name):
    """Nothing is remembered of it by then."""
    policy = make_policy(name, 8)
    fill(policy, range(8))
    back = policy.victims(1)[0]
    for number in range(20, 60):
        policy.victims(1)
        fill(policy, [number])

    policy.release([back])

    assert back in policy.victims(99)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_chunks_that_left_are_freed_at_once(name):
    """No cycle waits for the garbage collector, and no chunk in use keeps others alive."""
    policy = make_policy(name, 100)
    things = fill(policy, range(100))
    held = things[50]
    policy.hold([held])
    alive = [weakref.ref(thing) for thing in things if thing is not held]
    del things
    gc.disable()
    try:
        for number in range(1000, 2000, 10):
            policy.victims(10)
            fill(policy, range(number, number + 10))
        assert not any(ref() for ref in alive)
    finally:
        gc.enable()


def test_an_unknown_policy_is_refused():
    """The message names those there are."""
    with pytest.raises(ValueError) as error:
        make_policy("fifo", 10)
    assert str(error.value) == "there is no eviction policy 'fifo'; there are arc, lru, s3fifo"

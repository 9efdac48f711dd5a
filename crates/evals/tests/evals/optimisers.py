"""What the package `gepa` reaches in the scripted world of optimising.rs, to compare with.

    pip install --no-deps gepa==0.1.4
    python optimisers.py [SEEDS]

The world: twelve rules; each sample needs three of them, and an answer scores the share that the instructions name. Whoever
proposes texts adds one rule that a try lacked, and forgets one in three of ten proposals. No model is asked.
"""

import random
import statistics
import sys

import gepa
from gepa.core.adapter import EvaluationBatch


def needed(n):
    return [n % 12, (n + 1 + n // 12) % 12, (n + 5 + n // 12) % 12]


def rules(text):
    return [int(word[1:]) for word in text.split() if word[0] == "R"]


class World:
    propose_new_texts = None

    def __init__(self, seed):
        self.calls = 0
        self.draws = random.Random(seed)
        self.propose_new_texts = self.propose

    def score(self, candidate, n):
        known = set(rules(candidate["desk.instructions"]))
        return sum(rule in known for rule in needed(n)) / 3

    def evaluate(self, batch, candidate, capture_traces=False):
        self.calls += len(batch)
        scores = [self.score(candidate, n) for n in batch]
        return EvaluationBatch(outputs=list(batch), scores=scores, trajectories=list(batch))

    def make_reflective_dataset(self, candidate, eval_batch, components_to_update):
        return {name: [{"sample": n} for n in eval_batch.trajectories] for name in components_to_update}

    def propose(self, candidate, dataset, names):
        name = names[0]
        known = rules(candidate[name])
        missing = [rule for shown in dataset[name] for rule in needed(shown["sample"]) if rule not in known]
        if known and self.draws.random() < 0.3:
            known.remove(self.draws.choice(known))
        if missing:
            known.append(self.draws.choice(missing))
        return {name: " ".join(f"R{rule}" for rule in known)}


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    quiet = type("Quiet", (), {"log": lambda self, text: None})()
    for settings in [{}, {"cache_evaluation": True}]:
        for budget in (200, 400, 800):
            scores, calls = [], []
            for seed in range(seeds):
                world = World(seed)
                found = gepa.optimize(
                    seed_candidate={"desk.instructions": "Help."},
                    trainset=list(range(20)),
                    valset=list(range(20, 40)),
                    adapter=world,
                    max_metric_calls=budget,
                    reflection_minibatch_size=3,
                    logger=quiet,
                    seed=seed,
                    **settings,
                )
                test = [world.score(found.best_candidate, n) for n in range(40, 60)]
                scores.append(statistics.mean(test))
                calls.append(world.calls)
            print(
                f"{settings} {budget}: {statistics.mean(scores):.3f} +- {statistics.stdev(scores):.3f}, "
                f"calls {statistics.mean(calls):.0f}, at most {max(calls)}"
            )


if __name__ == "__main__":
    main()

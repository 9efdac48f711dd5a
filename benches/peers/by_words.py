"""Ranks documents by `rank_bm25` for benches/retrieval.rs: reads {"documents": {name: text}, "questions": [text]} and
writes the names of the ten best documents of each question. A text is cut into its words in lower case."""

import json
import re
import sys

from rank_bm25 import BM25Okapi


def words(text):
    return re.findall(r"\w+", text.lower())


asked = json.load(sys.stdin)
names = list(asked["documents"])
ranking = BM25Okapi([words(asked["documents"][name]) for name in names])
best = []
for question in asked["questions"]:
    scores = ranking.get_scores(words(question))
    order = sorted(range(len(names)), key=lambda place: (-scores[place], place))
    best.append([names[place] for place in order[:10]])
json.dump(best, sys.stdout)

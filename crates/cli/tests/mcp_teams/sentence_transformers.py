"""Stands in for the package of this name, whose weights are a download: texts are near each other that share words."""

import re
import zlib

import numpy

SIZE = 1024


class SentenceTransformer:
    def __init__(self, *_, **__):
        pass

    def get_sentence_embedding_dimension(self):
        return SIZE

    def encode(self, texts, normalize_embeddings):
        vectors = numpy.zeros((len(texts), SIZE))
        for vector, text in zip(vectors, texts):
            for word in re.findall(r"\w+", text):
                vector[zlib.crc32(word.encode()) % SIZE] += 1
        return vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)

"""Small models of other libraries, made in tests."""

import numpy as np
import pytest
import torch
from torch import nn


def save_sentence_transformer(folder, words, seed=0):
    """Write a model of sentence-transformers that takes the mean of vectors of words; return the vectors."""
    library = pytest.importorskip("sentence_transformers", reason="only tests of its models need it")
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    vectors = np.random.default_rng(seed).normal(size=(len(words) + 1, 8)).astype(np.float32)
    tokenizer = Tokenizer(WordLevel({**{word: place for place, word in enumerate(words)}, "?": len(words)}, "?"))
    tokenizer.pre_tokenizer = Whitespace()
    model = library.SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=vectors)], device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)
    return vectors


def save_torchscript(path, seed=0):
    """Write a small network of images as TorchScript; return the network."""
    import warnings

    network = SmallNetwork(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch would rather have exported programs
        torch.jit.script(network).save(str(path))
    return network


class SmallNetwork(nn.Module):
    """One convolution."""

    def __init__(self, seed=0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.convolution = nn.Conv2d(3, 5, 3)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def forward(self, images):
        return self.convolution(images)

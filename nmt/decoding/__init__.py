"""From a trained model to text: search over its steps, sentences in and out, the line filter."""

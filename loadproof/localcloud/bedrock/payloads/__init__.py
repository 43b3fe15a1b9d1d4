"""What Bedrock's runtime is asked and answers: Converse, and each provider's own body under InvokeModel."""

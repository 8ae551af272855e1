"""What a person looks at: pictures of a fit."""

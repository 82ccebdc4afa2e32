"""Pages of docs/ that tests follow as their readers do: what they type, save and see."""

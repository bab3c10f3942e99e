"""What records become: accepted, held, moved, cancelled or refused, as steps of their partition."""

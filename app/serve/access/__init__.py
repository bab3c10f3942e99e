"""Who may do what over HTTP: users by password or by an OpenID Connect provider, their roles, and what each needs."""

CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, item text NOT NULL);

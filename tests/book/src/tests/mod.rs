mod documents;
mod reference;
